#!/bin/sh
# kubeflow_progress.sh OUTPUT_DIR STEPS [SECONDS]: tells Kubeflow Trainer (2.2 or later) how far a
# run is, every SECONDS (30), until its last step. In the container of node 0:
#   examples/kubeflow_progress.sh /shared/output 1000 & exec build/fmengine-train ...
# Kubeflow sets the three variables; the token rotates, so its file is read each time. The token is
# handed over on standard input: command lines are seen by everybody on a host.
set -eu
metrics=$1/metrics.jsonl
steps=$2
: "${KUBEFLOW_TRAINER_SERVER_URL:?}" "${KUBEFLOW_TRAINER_SERVER_CA_CERT:?}"
: "${KUBEFLOW_TRAINER_SERVER_TOKEN:?}"

value() { printf '%s\n' "$line" | sed -n "s/.*\"$1\": *\([-0-9.eE+]*\).*/\1/p"; }

post() {
  left=$(awk "BEGIN { printf \"%d\", ($steps - $step) * $(value step_time) }")
  body="{\"trainerStatus\": {\"progressPercentage\": $((100 * step / steps)),
    \"estimatedRemainingSeconds\": $left, \"lastUpdatedTime\": \"$(date -u +%Y-%m-%dT%H:%M:%SZ)\",
    \"metrics\": [{\"name\": \"step\", \"value\": \"$step\"},
                  {\"name\": \"loss\", \"value\": \"$(value loss)\"}]}}"
  printf 'header = "Authorization: Bearer %s"\n' "$(cat "$KUBEFLOW_TRAINER_SERVER_TOKEN")" |
    curl --silent --show-error --fail --max-time 10 --config - --data "$body" \
      --header 'Content-Type: application/json' --output /dev/null \
      --cacert "$KUBEFLOW_TRAINER_SERVER_CA_CERT" "$KUBEFLOW_TRAINER_SERVER_URL"
}

step=0
while [ "$step" -lt "$steps" ]; do
  sleep "${3:-30}"
  line=$(tail -c 65536 "$metrics" 2>/dev/null | grep '"loss"' | tail -n 1)
  step=$(value step)
  step=${step:-0}
  tries=1
  if [ "$step" -ge "$steps" ]; then tries=10; fi  # the last word counts
  # A server that is away ends no training.
  while [ "$step" -gt 0 ] && [ "$tries" -gt 0 ] && ! post; do
    tries=$((tries - 1))
    sleep 1
  done
done
