#!/usr/bin/env bash
# The cost of sign-on: the same borrow and return, in turns, of a server without sign-on, one with API tokens, and one with
# JWTs of a real provider. Needs wrk, Node.js (scripts/oidc.sh) and a release build; prints requests a second and the ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${LEASEHOLD_BINARY:-target/release/leasehold}
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4}
directory=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$directory"' EXIT

(cd tests/oidc && exec node provider.mjs 0 2>/dev/null) >"$directory/provider" &
pids+=($!)
until grep -qs http "$directory/provider"; do sleep 0.1; done
issuer=$(cat "$directory/provider")
jwt=$(curl -s -d "grant_type=client_credentials&scope=read&resource=urn:leasehold:RS256&client_id=ci&client_secret=secret%20of%20ci" \
    "$issuer/token" | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
api=$($binary token new --name ci --role builders 2>"$directory/snippet")
policy=$'pools_require_sign_on = true\n[[policy]]\ngroups = ["builders"]\nactions = ["*"]\n'
: >"$directory/none.toml"
{ printf '[auth]\n%s' "$policy"; cat "$directory/snippet"; } >"$directory/token.toml"
{ printf '[auth]\n%s[auth.oidc]\nissuer = "%s"\naudience = "leasehold"\n' "$policy" "$issuer"; } >"$directory/jwt.toml"

export POOL=9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01
declare -A address token=([none]="" [token]="$api" [jwt]="$jwt")
for kind in none token jwt; do
    $binary serve --memory --listen 127.0.0.1:0 --config "$directory/$kind.toml" 2>"$directory/$kind.log" &
    pids+=($!)
    until grep -qs listening "$directory/$kind.log"; do sleep 0.1; done
    address[$kind]=$(sed -n 's/.*listening on \(http:[^,]*\),.*/\1/p' "$directory/$kind.log")
    curl -sf -o /dev/null -X PUT -H "Authorization: Bearer ${token[$kind]}" -d '{"count": 1000}' "${address[$kind]}/l/$POOL"
done
for round in $(seq "$rounds"); do
    for kind in none token jwt; do
        TOKEN=${token[$kind]} wrk -t1 -c64 -d"${seconds}s" -s bench/sign_on.lua "${address[$kind]}" |
            awk -v kind=$kind '/Requests\/sec/{print kind, $2}' >>"$directory/figures"
    done
done
# Each ratio is taken within its round, as the machine changes from one to the next; then the median, and the spread.
awk '{v[$1, ++n[$1]] = $2}
    function sorted(list, count, i, j, kept) {
        for (i = 2; i <= count; i++) {
            kept = list[i]
            for (j = i - 1; j > 0 && list[j] > kept; j--) list[j + 1] = list[j]
            list[j + 1] = kept
        }
    }
    function tell(kind, i, list) {
        for (i = 1; i <= n[kind]; i++) list[i] = v[kind, i] / v["none", i]
        sorted(list, n[kind])
        printf "%s/none %.3f (%.3f to %.3f in %d rounds)\n", kind, list[int((n[kind] + 1) / 2)], list[1], list[n[kind]], n[kind]
    }
    END {tell("token"); tell("jwt")}' "$directory/figures"
