"""What torchrun runs for each worker: it names itself to the supervisor, takes its rank's pipes, becomes the worker."""

# A constant: no value is ever written into it. `$$` stays the worker's process id, since exec keeps it.
# One short printf is one write to the FIFO, so that the lines of several workers don't mix.
SCRIPT = """\
printf '%s %s %s\\n' "$LOCAL_RANK" "$$" "${TORCHELASTIC_ERROR_FILE-}" > "$NCCLRUN_PIPES/ranks"
exec "$@" > "$NCCLRUN_PIPES/$LOCAL_RANK.out" 2> "$NCCLRUN_PIPES/$LOCAL_RANK.err"
"""
