#!/usr/bin/env bash
# ./quickstart.sh: from a bare Debian 12 to a trained model. What is done already is skipped.
#   1 packages and LibTorch   2 build   3 corpus: the C++ headers that step 1 put here
#   4 train a byte-level Llama of 5 M parameters on 2 ranks with ZeRO-2, or on a GPU by one rank
#   5 sample text from it
# Arguments go to scripts/setup.sh (--no-apt); TORCH_DIR= names an unpacked LibTorch,
# FM_DEMO_DEVICE=cpu or cuda what trains.
set -euo pipefail
cd "$(dirname "$0")"
steps=${FM_DEMO_STEPS:-600}
torch_dir=${TORCH_DIR:-.deps/torch}

say() { printf '\n== %s\n' "$*"; }

say "1/5 set-up"
scripts/setup.sh "$@"

say "2/5 build"
scripts/build.sh

say "3/5 corpus"
mkdir -p demo
if [ ! -s demo/corpus.jsonl ]; then
  standard_library=$(ls -d /usr/include/c++/* | sort -V | tail -1)
  python3 scripts/collect_corpus.py demo/corpus.jsonl 8 "$torch_dir/include" "$standard_library"
fi

device=${FM_DEMO_DEVICE:-$(build/fmengine-train --report | scripts/demo_device.sh)}
ranks=2
if [ "$device" != cpu ]; then ranks=1; fi
say "4/5 train: $steps steps, ranks: $ranks, device: $device, ZeRO-2 (stop and start it again as you like: it resumes)"
launcher=(mpirun -np "$ranks")
if [ "$(id -u)" = 0 ]; then launcher+=(--allow-run-as-root); fi
# mpirun counts cores, of which two threads of one are one.
if "${launcher[@]}" --bind-to core true 2>/dev/null; then
  launcher+=(--bind-to core)
else
  launcher+=(--oversubscribe)
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
if [ "$(cat demo/run/latest 2>/dev/null)" = "global_step$steps" ] && [ -e demo/run/hf/config.json ]; then
  echo "done already (remove demo/run to train again)"
else
  "${launcher[@]}" build/fmengine-train --deepspeed_config configs/quickstart.json \
    --model_config configs/models/llama-5m-bytes.json --data_path demo/corpus.jsonl \
    --output_dir demo/run --train_steps "$steps" --save_steps "$steps" --device "$device"
fi

say "5/5 200 bytes from the trained model"
build/fmengine-generate --ckpt demo/run/hf --prompt "#include <" --max_new_tokens 200 \
  --temperature 0.5 --seed 1
printf '\n\ncheckpoint:          demo/run/%s\nHugging Face folder: demo/run/hf\n' "$(cat demo/run/latest)"
build/fmengine-report demo/run
cat <<'NEXT'

next, a model of your own (docs/recipes.md):
  build/fmengine-train --init_ckpt HF_FOLDER --data_path chats.jsonl --output_dir output
  build/fmengine-generate --ckpt output/hf --chat
  build/fmengine-report output
NEXT
