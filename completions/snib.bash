# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bash completion of snib: commands, options, values, and the names of locks in use, asked of the
# engine that the line itself names (-U), else of the one configured.
#
# Works with and without the bash-completion package; with it, the command behind `snib run NAME`
# is completed by its own rules.

_snib_commands='run hold status list break guard engines doctor'
_snib_options_run='--nonblock --wait --conflict-exit-code --shared --exclusive --permits --also
    --url --ttl --min-hold --max-hold --on-lost --grace --label --require --retry --verbose --help
    -n -w -E -s -x -U -v -h'
_snib_options_hold='--nonblock --wait --conflict-exit-code --shared --exclusive --permits --also
    --url --ttl --max-hold --label --require --retry --json --verbose --help
    -n -w -E -s -x -U -v -h'
_snib_options_status='--url --json --help -U -h'
_snib_options_list='--url --names --json --help -U -h'
_snib_options_break='--yes --force --token --url --json --help -U -h'
_snib_options_guard='--token --help -h'
_snib_options_engines='--json --help -h'
_snib_options_doctor='--url --json --acl --help -U -h'
_snib_traits='fair shared counted leased ttl-per-lock token-span cross-host at-once
    survives-server-loss breaks lists'

# Readline breaks words at ':' and '=' too; a name or a URL is one word. Sets `words` up to the
# cursor, and `raw`, where each of them starts in COMP_WORDS.
_snib_words() {
    local rest=${COMP_LINE:0:COMP_POINT} word lead i
    words=() raw=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        lead=${rest%%"$word"*}
        rest=${rest#*"$word"}
        if [[ -n $word && -z $lead && i -gt 0 ]]; then
            words[-1]+=$word
        else
            words+=("$word")
            raw+=("$i")
        fi
    done
}

_snib_takes_value() {
    case $1 in
    -[wEU] | --wait | --timeout | --conflict-exit-code | --permits | --also | --url | --ttl) ;;
    --min-hold | --max-hold | --on-lost | --grace | --label | --require | --token) ;;
    *) return 1 ;;
    esac
}

# Add the lines of stdin that start with what was typed, quoted as the line needs it.
_snib_offer() {
    local typed=$1 line quote=
    case $typed in
    [\'\"]*)
        quote=${typed:0:1}
        typed=${typed:1}
        ;;
    *) typed=${typed//\\/} ;;
    esac
    while IFS= read -r line; do
        if [[ -n $line && ${line:0:${#typed}} == "$typed" ]]; then
            [[ -n $quote ]] || printf -v line %q "$line"
            COMPREPLY+=("$line")
        fi
    done
}

_snib_names() {
    _snib_offer "$1" < <(timeout 2 "${words[0]/#\~/$HOME}" list --names ${url:+-U "$url"} 2>/dev/null)
}

_snib_value() {
    local option=$1 typed=$2 done_part=
    case $option in
    -U | --url)
        _snib_offer "$typed" < <("${words[0]/#\~/$HOME}" engines 2>/dev/null |
            sed -nE 's/^(file|unix):.*/\1:/p; t; s/^([a-z][a-z0-9+]*):.*/\1:\/\//p')
        compopt -o nospace 2>/dev/null
        ;;
    --also) _snib_names "$typed" ;;
    --on-lost) mapfile -t COMPREPLY < <(compgen -W 'kill term ignore' -- "$typed") ;;
    --require)
        [[ $typed != *,* ]] || done_part=${typed%,*},
        mapfile -t COMPREPLY < <(compgen -P "$done_part" -W "$_snib_traits" -- "${typed##*,}")
        ;;
    esac
}

# What readline will replace starts behind the last break of the word.
_snib_trim() {
    local typed=$1 break cut=0 part i
    for break in : =; do
        if [[ $COMP_WORDBREAKS == *$break* && $typed == *$break* ]]; then
            part=${typed%"$break"*}
            ((${#part} + 1 <= cut)) || cut=$((${#part} + 1))
        fi
    done
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]:cut}
    done
}

_snib_command_behind() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)); then
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    else
        compopt -o default 2>/dev/null
    fi
}

# Behind the command's name: where its first argument stands, 0 if it is still to come. Sets `url`
# and, if the word before the cursor waits for one, `option`.
_snib_scan() {
    local i last=$((${#words[@]} - 1))
    url='' option='' subject=0
    for ((i = 2; i < last; i++)); do
        case ${words[i]} in
        --url=*) url=${words[i]#*=} ;;
        --)
            subject=$((i + 1))
            return
            ;;
        -?*)
            _snib_takes_value "${words[i]}" || continue
            if ((i + 1 == last)); then
                option=${words[i]}
                return
            fi
            ((i += 1))
            [[ ${words[i - 1]} != -U && ${words[i - 1]} != --url ]] || url=${words[i]}
            ;;
        *)
            subject=$i
            [[ ${words[1]} == status || ${words[1]} == list || ${words[1]} == break ]] || return
            ;;
        esac
    done
}

_snib_subject() {
    local command=$1 typed=$2 last=$((${#words[@]} - 1)) behind
    if ((subject == 0 || subject == last)); then
        case $command in
        run | hold | status | break) _snib_names "$typed" ;;
        list) _snib_names "$typed" ;;
        guard) compopt -o default 2>/dev/null ;;
        doctor) _snib_value --url "$typed" ;;
        esac
        return
    fi
    case $command in
    run | guard)
        behind=$((subject + 1))
        [[ ${words[behind]} != -- || $behind -eq $last ]] || ((behind += 1))
        if [[ $command == guard && $behind -eq $last && ${words[last - 1]} != -- ]]; then
            COMPREPLY=(--)
        else
            _snib_command_behind "${raw[behind]}"
        fi
        ;;
    esac
}

_snib() {
    local words raw url option subject command typed options
    COMPREPLY=()
    _snib_words
    typed=${words[-1]}
    command=${words[1]}
    if ((${#words[@]} <= 2)); then
        mapfile -t COMPREPLY < <(compgen -W \
            "$_snib_commands help --help --version" -- "$typed")
        return
    fi
    if [[ $command == help ]]; then
        ((${#words[@]} > 3)) || mapfile -t COMPREPLY < <(compgen -W "$_snib_commands" -- "$typed")
        return
    fi
    options=_snib_options_$command
    [[ $command =~ ^[a-z]+$ && -n ${!options-} ]] || return
    _snib_scan
    if [[ -n $option ]]; then
        _snib_value "$option" "$typed"
    elif [[ $typed == --*=* ]]; then
        _snib_value "${typed%%=*}" "${typed#*=}"
        typed=${typed#*=}
    elif [[ $typed == -* && ($subject -eq 0 || $command != run && $command != guard) ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${!options}" -- "$typed")
        return
    else
        _snib_subject "$command" "$typed"
        ((subject == 0 || subject == ${#words[@]} - 1)) || return
    fi
    _snib_trim "$typed"
}

complete -F _snib snib
