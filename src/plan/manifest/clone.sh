# Clones one repository. Nothing secret is in an argument or a variable of the environment: the token is read from its
# file by the shell itself, and git hears it from the helper below, for this one origin.
url=$1 origin=$2 first=$3 second=$4 place=$5 token_file=$6 ca_file=$7 before=$8
shift 8
umask 022
newline='
'
tab=$(printf '\t')
export TOKEN_FILE="$token_file"
token=
if [ -r "$token_file" ]; then IFS= read -r token < "$token_file" || :; fi
token=${token%"$(printf '\r')"}
# What a server might send back: the token, and the form that it had on the way there.
basic=
if [ -n "$token" ]; then basic=$(printf 'oauth2:%s' "$token" | base64 2>/dev/null | tr -d '\n'); fi
helper='!f() { [ "$1" = get ] || exit 0; token=; IFS= read -r token < "$TOKEN_FILE" || :; printf "username=oauth2\npassword=%s\n" "${token%"$(printf "\r")"}"; }; f'
say() { printf 'clone: %s\n' "$1"; }
g() {
  git -c credential.helper= ${token:+-c "credential.$origin.helper=$helper"} ${ca:+-c "http.$origin/.sslCAInfo=$ca"} \
    -c http.sslVerify=true -c http.followRedirects=false -c http.lowSpeedLimit=1 -c http.lowSpeedTime=60 \
    -c protocol.allow=never -c protocol.https.allow=always -c core.hooksPath=/dev/null -c core.fsmonitor=false \
    -c submodule.recurse=false -c fetch.recurseSubmodules=false -c gc.auto=0 -c maintenance.auto=false \
    -c advice.detachedHead=false -c init.defaultBranch=main "$@"
}
ca=
if [ -r "$ca_file" ]; then ca=$ca_file; fi
submodules() {
  g submodule -q init || return
  g config --name-only --get-regexp '^submodule\..*\.url$' | while IFS= read -r name; do
    sub=$(g config --get "$name") || exit 1
    fits=
    case $sub in *..* | *[!A-Za-z0-9:/._~+-]*) ;; *)
      for prefix; do case "${sub%.git}/" in "$prefix"*) fits=1 ;; esac; done ;;
    esac
    if [ -z "$fits" ]; then say "the submodule $sub leads to where nothing may be cloned from"; exit 1; fi
  done || return
  g submodule -q update --depth=1 --jobs=1
}
clone() {
  g init -q --template= "$place" && cd "$place" && g remote add origin "$url" || return
  want=$first
  if [ -n "$second" ]; then
    listed=$(g ls-remote origin "$first" "$second") || return
    case "$listed$newline" in
      *"$tab$first$newline"*) ;;
      *"$tab$second$newline"*) want=$second ;;
      *) say "there is no branch and no tag ${first#refs/heads/}; a commit needs its full id"; return 1 ;;
    esac
  fi
  spec=$want
  case $want in refs/tags/*) spec=$want:$want ;; esac
  g fetch -q --depth=1 --no-tags origin "$spec" || return
  case $want in
    refs/heads/*) g checkout -q -B "${want#refs/heads/}" FETCH_HEAD || return ;;
    *) g checkout -q --detach FETCH_HEAD || return ;;
  esac
  if [ $# -gt 0 ] && [ -f .gitmodules ]; then submodules "$@" || return; fi
}
# Every line, with what is secret taken out, by the shell alone.
mask() {
  while IFS= read -r line || [ -n "$line" ]; do
    for secret in "$token" "$basic"; do
      [ -n "$secret" ] || continue
      rest=$line line=
      while :; do
        case $rest in
          *"$secret"*) line="$line${rest%%"$secret"*}[redacted]" rest=${rest#*"$secret"} ;;
          *) break ;;
        esac
      done
      line=$line$rest
    done
    printf '%s\n' "$line"
  done
}
report() {
  clone "$@" 2>&1
  code=$?
  if [ "$code" -ne 0 ] && [ -z "$token" ]; then say "the server has no token for $origin, so this was tried without one"; fi
  return "$code"
}
exec 4>&1
code=$({ { report "$@" 3>&-; echo "$?" >&3; } | mask >&4; } 3>&1)
# What changes from here on is the command's doing.
if [ "${code:-1}" -eq 0 ]; then : > "$before" || code=1; fi
exit "${code:-1}"
