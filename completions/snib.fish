# SPDX-License-Identifier: Apache-2.0
#
# fish completion of snib: commands, options, values, and the names of locks in use, asked of the
# engine that the line itself names (-U), else of the one configured.

# The words behind `snib` up to the cursor, without the one being typed.
function __snib_words
    set -l words (commandline -opc)
    set -e words[1]
    string join -- \n $words
end

function __snib_needs_command
    test (count (__snib_words)) -eq 0
end

function __snib_is
    set -l words (__snib_words)
    test (count $words) -gt 0; and contains -- $words[1] $argv
end

# The words from the first argument on; none if it is still to come.
function __snib_rest
    set -l words (__snib_words)
    set -l i 2
    while test $i -le (count $words)
        switch $words[$i]
            case -w -E -U --wait --timeout --conflict-exit-code --permits --also --url --ttl \
                --min-hold --max-hold --on-lost --grace --label --require --token
                set i (math $i + 1)
            case '-*'
            case '*'
                string join -- \n $words[$i..-1]
                return
        end
        set i (math $i + 1)
    end
end

function __snib_needs_subject
    test (count (__snib_rest)) -eq 0
end

# The command behind the name, completed by its own rules.
function __snib_command
    set -l words (__snib_rest)
    set -e words[1]
    if test (count $words) -gt 0; and test $words[1] = --
        set -e words[1]
    end
    set -l typed (commandline -ct)
    complete -C (string join ' ' -- (string escape -- $words) $typed)
end

function __snib_locks
    set -l words (commandline -opc)
    set -l url
    for i in (seq (count $words))
        switch $words[$i]
            case -U --url
                set url -U $words[(math $i + 1)]
            case '--url=*'
                set url -U (string replace -- --url= '' $words[$i])
        end
    end
    timeout 2 $words[1] list --names $url 2>/dev/null
end

function __snib_urls
    set -l words (commandline -opc)
    $words[1] engines 2>/dev/null |
        sed -nE 's/^(file|unix):.*/\1:/p; t; s/^([a-z][a-z0-9+]*):.*/\1:\/\//p'
end

function __snib_traits
    set -l chosen (string match -r '.*,' -- (commandline -ct))
    for trait in fair shared counted leased ttl-per-lock token-span cross-host at-once \
        survives-server-loss breaks lists
        echo "$chosen$trait"
    end
end

complete -c snib -f
complete -c snib -n __snib_needs_command -a run -d 'run a command while holding a lock'
complete -c snib -n __snib_needs_command -a hold -d 'hold a lock until stdin closes'
complete -c snib -n __snib_needs_command -a status -d 'who holds a lock, who waits for it'
complete -c snib -n __snib_needs_command -a list -d 'all locks in use'
complete -c snib -n __snib_needs_command -a break -d 'ask the holder of a lock to give it up'
complete -c snib -n __snib_needs_command -a guard -d 'refuse a file to those whose token is too old'
complete -c snib -n __snib_needs_command -a engines -d 'the engines, and what each one promises'
complete -c snib -n __snib_needs_command -a doctor -d 'what is promised here, and what to change'
complete -c snib -n __snib_needs_command -a help -d 'all commands, or the options of one'
complete -c snib -n '__snib_is help; and __snib_needs_subject' \
    -a 'run hold status list break guard engines doctor'
complete -c snib -n __snib_needs_command -s V -l version -d 'the version'
complete -c snib -s h -l help -d 'options and statuses'

set -l lock '__snib_is run hold; and __snib_needs_subject'
set -l run '__snib_is run; and __snib_needs_subject'
set -l asks '__snib_is status list break'

complete -c snib -n "$lock" -s n -l nonblock -d 'do not wait'
complete -c snib -n "$lock" -s w -l wait -x -d 'wait at most this long'
complete -c snib -n "$lock" -s E -l conflict-exit-code -x -d 'exit with this instead of 75'
complete -c snib -n "$lock" -s s -l shared -d 'share it with others who do'
complete -c snib -n "$lock" -s x -l exclusive -d 'do not share it'
complete -c snib -n "$lock" -l permits -x -d 'up to N may hold it'
complete -c snib -n "$lock" -l also -x -a '(__snib_locks)' -d 'this lock too, all or none'
complete -c snib -n "$lock" -s U -l url -x -a '(__snib_urls)' -d 'the engine'
complete -c snib -n "$lock" -l ttl -x -d 'freed when snib falls silent for this long'
complete -c snib -n "$lock" -l max-hold -x -d 'hold it at most this long'
complete -c snib -n "$lock" -l label -x -d 'tell others why it is held'
complete -c snib -n "$lock" -l require -x -a '(__snib_traits)' -d 'refuse an engine without this'
complete -c snib -n "$lock" -l retry -d 'wait for a server that cannot be reached yet'
complete -c snib -n "$lock" -s v -l verbose -d 'say what happens'
complete -c snib -n "$lock" -a '(__snib_locks)'

complete -c snib -n "$run" -l min-hold -x -d 'hold it at least this long'
complete -c snib -n "$run" -l on-lost -x -a 'kill term ignore' -d 'when the lock is lost'
complete -c snib -n "$run" -l grace -x -d 'from TERM to the end of the lease'
complete -c snib -n '__snib_is hold; and __snib_needs_subject' \
    -l json -d 'commands on stdin, events on stdout'
complete -c snib -n '__snib_is run guard; and not __snib_needs_subject' \
    -a '(__snib_command)'

complete -c snib -n "$asks; or __snib_is doctor" -s U -l url -x -a '(__snib_urls)' -d 'the engine'
complete -c snib -n "$asks; or __snib_is engines doctor" -l json -d 'for programs'
complete -c snib -n "$asks; and __snib_needs_subject" -a '(__snib_locks)'
complete -c snib -n '__snib_is list' -l names -d 'the names alone'
complete -c snib -n '__snib_is break' -l yes -d 'do it'
complete -c snib -n '__snib_is break' -l force -d 'take it away now'
complete -c snib -n '__snib_is doctor' -l acl -d 'print the rights this URL needs'
complete -c snib -n '__snib_is doctor; and __snib_needs_subject' -a '(__snib_urls)'
complete -c snib -n '__snib_is break guard' -l token -x -d 'the fencing token'
complete -c snib -n '__snib_is guard; and __snib_needs_subject' -F
