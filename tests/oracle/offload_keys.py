"""offload_keys.py BUILD: defaults of offload_optimizer, offload_param and aio are those of DeepSpeed's classes."""
import json
import subprocess
import sys
import tempfile

from deepspeed.runtime.swap_tensor.aio_config import AIO_DEFAULT_DICT
from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig, DeepSpeedZeroOffloadParamConfig

# On here unless a file says otherwise.
OURS = {"zero_optimization.offload_optimizer.pipeline_read", "zero_optimization.offload_optimizer.pipeline_write"}
IGNORED = {"buffer_size", "fast_init", "super_offload", "cpuadam_cores_perc", "single_submit", "overlap_events", "use_gds"}


def theirs():
    """{path: default} of every key, as JSON has it."""
    out = {"aio." + key: value for key, value in AIO_DEFAULT_DICT.items()}
    for name, block in (("offload_optimizer", DeepSpeedZeroOffloadOptimizerConfig),
                        ("offload_param", DeepSpeedZeroOffloadParamConfig)):
        for key, field in block.model_fields.items():
            out[f"zero_optimization.{name}.{key}"] = field.default
    return out


def main():
    program = sys.argv[1] + "/fmengine-train"
    with tempfile.TemporaryDirectory() as folder:
        model = folder + "/model.json"
        with open(model, "w", encoding="utf-8") as file:
            json.dump({"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
                       "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}, file)
        done = subprocess.run([program, "--print_config", "--json", "--model_config", model],
                              capture_output=True, text=True, check=True)
    shown = json.loads(done.stdout)
    wrong = []
    for path, value in sorted(theirs().items()):
        if path.rsplit(".", 1)[1] in IGNORED:
            continue
        expected = True if path in OURS else value
        if path not in shown or shown[path]["value"] != expected:
            wrong.append(f"{path}: {shown.get(path)} here, {expected!r} there")
    print(f"{len(theirs())} keys, {len(wrong)} differences")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
