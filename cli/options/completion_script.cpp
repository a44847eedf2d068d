#include "cli/options/completion_script.hpp"

#include <spdlog/fmt/fmt.h>

#include <functional>
#include <vector>

#include "cli/options/common_options.hpp"
#include "cli/terminal/text.hpp"

namespace gpumat::cli {
namespace {

std::string words_of(const std::vector<std::string>& words, const std::string& between = " ") {
    return joined(words, between);
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
        text.replace(at, what.size(), with);
    return text;
}

/// In single quotes for bash and zsh.
std::string quoted(const std::string& text) {
    return "'" + replaced(text, "'", "'\\''") + "'";
}

/// Calls `visit` for the tool and every command in it.
void for_each(const CommandFacts& command, const std::function<void(const CommandFacts&)>& visit) {
    visit(command);
    for (const CommandFacts& inner : command.commands) for_each(inner, visit);
}

std::vector<std::string> names_of_commands(const CommandFacts& command) {
    std::vector<std::string> names;
    for (const CommandFacts& inner : command.commands) names.push_back(inner.name);
    return names;
}

std::vector<std::string> names_of_options(const CommandFacts& command) {
    std::vector<std::string> names;
    for (const OptionFacts& option : command.options) {
        if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
    }
    return names;
}

/// The values of the positions that have a list of them.
std::vector<std::string> values_of_positions(const CommandFacts& command) {
    std::vector<std::string> values;
    for (const OptionFacts& option : command.options) {
        if (option.positional) values.insert(values.end(), option.values.begin(), option.values.end());
    }
    return values;
}

/// The paths of all commands in the tool, each in quotes.
std::string paths_of_commands(const CommandFacts& tool, const std::string& between) {
    std::vector<std::string> paths;
    for_each(tool, [&](const CommandFacts& command) {
        if (&command != &tool) paths.push_back("'" + command.path + "'");
    });
    return words_of(paths, between);
}

// ---- zsh ----

/// For zsh's descriptions, in which brackets and colons mean something.
std::string zsh_text(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
        escaped += c;
    }
    return escaped;
}

/// How zsh completes a value: ":LEVEL:(auto naive)".
std::string zsh_value(const OptionFacts& option) {
    if (option.value.empty() && !option.positional) return "";
    const std::string name = zsh_text(option.positional ? option.names.front() : option.value);
    if (option.values.empty())
        return ":" + name + (option.value == kReference ? ":_gpumat_matrices" : ":_files");
    if (option.many) return ":" + name + ":_values -s , value " + words_of(option.values);
    return ":" + name + ":(" + words_of(option.values) + ")";
}

std::string zsh_argument(const OptionFacts& option) {
    if (option.positional) return quoted((option.many ? "*" : "") + zsh_value(option));
    const std::string rest = quoted("[" + zsh_text(option.help) + "]" + zsh_value(option));
    const bool takes_value = !option.value.empty();
    std::string names;
    for (const std::string& name : option.names) {
        const std::string mark = !takes_value ? "" : name.starts_with("--") ? "=" : "+";
        names += (names.empty() ? "" : ",") + name + mark;
    }
    if (option.names.size() == 1) return names + rest;
    return "'(" + words_of(option.names) + ")'{" + names + "}" + rest;
}

std::string zsh_function_name(const CommandFacts& command) {
    return "_" + replaced(replaced(command.path, " ", "_"), "-", "_");
}

/// The function that completes what comes after the name of a command.
std::string zsh_function(const CommandFacts& command) {
    std::string text = zsh_function_name(command) + "() {\n";
    std::string arguments;
    for (const OptionFacts& option : command.options) {
        if (!option.positional || command.commands.empty())
            arguments += " \\\n        " + zsh_argument(option);
    }
    if (command.commands.empty()) return text + "    _arguments -s" + arguments + "\n}\n\n";
    std::string names;
    std::string calls;
    for (const CommandFacts& inner : command.commands) {
        names += "            " + quoted(inner.name + ":" + zsh_text(inner.summary)) + "\n";
        calls += fmt::format("        {}) {} ;;\n", inner.name, zsh_function_name(inner));
    }
    return text + "    local curcontext=$curcontext state line\n    local -a commands\n    _arguments -C -s" +
           arguments +
           " \\\n        '1:command:->command' '*::argument:->argument'\n    case $state in\n    command)\n"
           "        commands=(\n" +
           names +
           "        )\n        _describe command commands\n        ;;\n    argument)\n"
           "        case $words[1] in\n" +
           calls + "        esac\n        ;;\n    esac\n}\n\n";
}

// ---- fish ----

std::string fish_quoted(const std::string& text) {
    return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_option(const CommandFacts& command, const OptionFacts& option) {
    std::string line = fmt::format("complete -c gpumat -n '__gpumat_in \"{}\"'", command.path);
    if (option.positional) return line + " -f -a " + fish_quoted(words_of(option.values)) + "\n";
    for (const std::string& name : option.names)
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (!option.values.empty()) {
        line += " -x -a " + fish_quoted(words_of(option.values));
    } else if (!option.value.empty()) {
        line += " -r";
    }
    return line + " -d " + fish_quoted(option.help) + "\n";
}

std::string fish_command(const CommandFacts& command) {
    std::string text;
    for (const CommandFacts& inner : command.commands) {
        text += fmt::format("complete -c gpumat -n '__gpumat_in \"{}\"' -f -a {} -d {}\n", command.path,
                            inner.name, fish_quoted(inner.summary));
    }
    for (const OptionFacts& option : command.options) {
        if (!option.positional || !option.values.empty()) text += fish_option(command, option);
    }
    return text;
}

}  // namespace

std::string bash_completion(const CommandFacts& tool) {
    std::string values;
    std::string words;
    for_each(tool, [&](const CommandFacts& command) {
        for (const OptionFacts& option : command.options) {
            if (option.positional || option.value.empty()) continue;
            std::vector<std::string> patterns;
            for (const std::string& name : option.names)
                patterns.push_back("'" + command.path + " " + name + "'");
            values += fmt::format("    {}) words='{}' value=1 ;;\n", words_of(patterns, " | "),
                                  words_of(option.values));
        }
        std::vector<std::string> others = names_of_commands(command);
        for (const std::string& value : values_of_positions(command)) others.push_back(value);
        words += fmt::format("    '{}') options='{}' words='{}' ;;\n", command.path,
                             words_of(names_of_options(command)), words_of(others));
    });
    return fmt::format(R"(# bash completion of gpumat; gpumat completion bash wrote it.
_gpumat() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=gpumat
    local word words= options= value= kept=
    # bash takes --option=value for three words.
    if [[ $current == '=' ]]; then
        current=
    elif [[ $before == '=' ]]; then
        before=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    # FILE:/DATASET is three words too: what stands before the colon is asked.
    local file=
    if [[ $current == ':' && $COMP_CWORD -gt 1 ]]; then
        file=$before current=
    elif [[ $before == ':' && $COMP_CWORD -gt 2 ]]; then
        file=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    file=${{file/#\~\//$HOME/}}
    if [[ -f $file ]]; then
        local IFS=$'\n' names
        mapfile -t names < <("${{COMP_WORDS[0]}}" info --names -q -- "$file" 2>/dev/null)
        mapfile -t COMPREPLY < <(compgen -W "${{names[*]#"$file:"}}" -- "$current")
        return
    fi
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
        case "$command $word" in
        {0}) command="$command $word" ;;
        esac
    done
    case "$command $before" in
{1}    esac
    if [[ -z $value ]]; then
        case $command in
{2}        esac
        [[ $current == -* ]] && words=$options
    elif [[ $current == *,* ]]; then # a list: its last part is completed
        kept=${{current%,*}},
        current=${{current##*,}}
    fi
    mapfile -t COMPREPLY < <(compgen -P "$kept" -W "$words" -- "$current")
}}
complete -o bashdefault -o default -F _gpumat gpumat
)",
                       paths_of_commands(tool, " | "), values, replaced(words, "    '", "        '"));
}

std::string zsh_completion(const CommandFacts& tool) {
    std::string text =
        "#compdef gpumat\n# zsh completion of gpumat; gpumat completion zsh wrote it.\n\n"
        "# Files, and the datasets of one that a colon follows.\n"
        "_gpumat_matrices() {\n"
        "    local file=${PREFIX%%:*}\n"
        "    if [[ $PREFIX == *:* && -f $file ]]; then\n"
        "        local -a names=(${(f)\"$(gpumat info --names -q -- $file 2>/dev/null)\"})\n"
        "        compadd -Q -a names\n"
        "    else\n"
        "        _files\n"
        "    fi\n"
        "}\n\n";
    for_each(tool, [&](const CommandFacts& command) { text += zsh_function(command); });
    return text + "_gpumat \"$@\"\n";
}

std::string fish_completion(const CommandFacts& tool) {
    std::string text = fmt::format(R"(# fish completion of gpumat; gpumat completion fish wrote it.
function __gpumat_in
    set -l command gpumat
    for word in (commandline -opc)[2..]
        switch "$command $word"
            case {}
                set command "$command $word"
        end
    end
    test "$command" = "$argv[1]"
end
# The datasets of a file that a colon follows.
complete -c gpumat -n 'string match -q "*:*" -- (commandline -ct)' -f -a '(gpumat info --names -q -- (string split -m1 : -- (commandline -ct))[1] 2>/dev/null)'

)",
                                   paths_of_commands(tool, " "));
    for_each(tool, [&](const CommandFacts& command) { text += fish_command(command); });
    return text;
}

}  // namespace gpumat::cli
