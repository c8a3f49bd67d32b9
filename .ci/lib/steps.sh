# How a step of .ci/test runs and is counted. Wants $logs, a folder.

sums=$logs/sums
: >"$sums"

# Sets $processor to the seconds of processor time that ended children of this shell took.
read_processor() {
    local stat
    read -ra stat <"/proc/$BASHPID/stat"
    processor=$(((stat[15] + stat[16]) / $(getconf CLK_TCK)))
}

# step NAME COMMAND...: runs it, shows what it prints, and notes what came of it: a line "NAME passed failed skipped" in
# $sums, as steps also run in a subshell.
step() {
    local name=$1 log=$logs/$1.log status=0 began=$SECONDS processor before
    read_processor
    before=$processor
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log" || status=$?
    # cargo: "test result: ok. 3 passed; 0 failed; 1 ignored"; weir stf: "x.json: 3 passed, 0 failed";
    # pytest: "3 passed in 1.2s".
    awk -v name="$name" -v status=$status '
        /^test result:/ { p += $4; f += $6; s += $8 }
        /\.json: [0-9]+ passed, [0-9]+ failed$/ { p += $2; f += $4 }
        /^[0-9]+ passed in / { p += $1 }
        END {
            if (status != 0 && f == 0) f = 1
            if (p + f + s == 0) p = 1
            print name, p + 0, f + 0, s + 0
        }' "$log" >>"$sums"
    read_processor
    printf '== %s: %d s, %d s of processor time\n' "$name" $((SECONDS - began)) $((processor - before))
}

# skip NAME WHY
skip() {
    printf '\n== %s\nskipped: %s\n' "$1" "$2"
    echo "$1 0 0 1" >>"$sums"
}

# python_step NAME COMMAND...: a step that needs Python.
python_step() {
    if command -v python3 >/dev/null; then step "$@"; else skip "$1" "python3 is not installed"; fi
}

# root_step NAME COMMAND...: a step that needs root, and Python.
root_step() {
    if ((EUID == 0)); then python_step "$@"; else skip "$1" "needs root"; fi
}

# Lets this subshell and what it starts run on the time that no other process wants, so that it does not delay what is
# measured beside it.
idle() {
    chrt --idle --pid 0 "$BASHPID" 2>/dev/null || renice -n 19 "$BASHPID" >/dev/null
}

sum() {
    printf '\n'
    awk -v logs="$logs" -v strict="${NO_SKIPS:-0}" '
        $3 > 0 { print "FAILED  " $1 " (log: " logs "/" $1 ".log)" }
        $4 > 0 { print "skipped " $1 ": " $4 }
        { p += $2; f += $3; s += $4 }
        END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f > 0 || (s > 0 && strict != 0) }' "$sums"
}
