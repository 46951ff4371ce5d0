#include "app/completion.h"

#include <span>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "core/text.h"
#include "scenarios/scenario.h"
#include "sim/collective/plan.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using Words = std::vector<std::string>;

// A word and what it means.
struct Meaning {
  std::string word, meaning;
  bool takes_value = false;
};

// A command as scripts find it: " calibrate fit", after the program's name.
struct CommandWords {
  std::string place;
  std::vector<Meaning> commands, options;
  Words values;                                       // of its positional arguments, where they are names
  std::vector<std::pair<Words, Words>> values_after;  // options and the names that are their values
};

Words with_clusters() {
  Words names = node_preset_names();
  const Words clusters = cluster_names();
  names.insert(names.end(), clusters.begin(), clusters.end());
  return names;
}

// What an option's value may be called; nothing where it is a file's name or anything.
Words values_of(const CLI::App& app, const CLI::Option& option) {
  const std::string& name = option.get_single_name();
  if (name == "COMMAND") {
    Words commands;
    for (const CLI::App* command : commands_of(app)) {
      commands.push_back(command->get_name());
    }
    return commands;
  }
  return name == "cluster" || name == "CLUSTER" ? with_clusters()
         : name == "COLLECTIVE"                 ? all_names<CollectiveKind>()
         : name == "SHELL"                      ? all_names<Shell>()
                                                : Words{};
}

// The options that a program's help names: those of the measuring program, which are not ours.
std::vector<Meaning> options_in(const std::string& help) {
  std::vector<Meaning> options;
  for (std::size_t at = help.find("\n  --"); at != std::string::npos; at = help.find("\n  --", at + 1)) {
    const std::size_t begin = at + 3, end = help.find_first_of(" \n", begin);
    options.push_back({help.substr(begin, end - begin), "", false});
  }
  return options;
}

void add(std::vector<CommandWords>& all, const CLI::App& app, const CLI::App& command,
         const std::string& place) {
  CommandWords added{place, {}, {}, {}, {}};
  for (const CLI::App* below : commands_of(command)) {
    added.commands.push_back({below->get_name(), below->get_description(), false});
  }
  for (const CLI::Option* option : options_of(command)) {
    const Words values = values_of(app, *option);
    if (option->get_positional()) {
      added.values = values;
      continue;
    }
    for (const std::string& name : names_of(*option)) {
      added.options.push_back({name, option->get_description(), takes_value(*option)});
    }
    if (!values.empty()) {
      added.values_after.emplace_back(names_of(*option), values);
    }
  }
  if (command.get_prefix_command()) {
    for (const Meaning& option : options_in(command.get_footer())) {
      if (option.word != "--help") {  // which is among them already
        added.options.push_back(option);
      }
    }
  }
  all.push_back(added);
  for (const CLI::App* below : commands_of(command)) {
    add(all, app, *below, place + ' ' + below->get_name());
  }
}

std::string words_of(const std::vector<Meaning>& meanings) {
  Words words;
  for (const Meaning& each : meanings) {
    words.push_back(each.word);
  }
  return joined(words, " ");
}

std::string in_single_quotes(const std::string& text, const std::string& quote) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? quote : std::string(1, c);
  }
  return quoted + '\'';
}

// " run" | " calibrate" | " calibrate fit": every command but the program itself.
std::string patterns(std::span<const CommandWords> all, const std::string& between) {
  Words places;
  for (const CommandWords& command : all.subspan(1)) {
    places.push_back('"' + command.place + '"');
  }
  return joined(places, between);
}

std::string for_bash(std::span<const CommandWords> all) {
  std::string cases;
  for (const CommandWords& command : all) {
    cases += "    \"" + command.place + "\")\n      options=\"" + words_of(command.options) + "\"\n";
    const std::string values =
        command.commands.empty() ? joined(command.values, " ") : words_of(command.commands);
    cases += values.empty() ? "" : "      values=\"" + values + "\"\n";
    for (const auto& [options, names] : command.values_after) {
      cases += "      case \"$previous\" in " + joined(options, "|") + ") values=\"" + joined(names, " ") +
               "\" ;; esac\n";
    }
    cases += "      ;;\n";
  }
  return R"(# bash completion for paceline, made by `paceline completion bash`
_paceline() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}"
  local command="" options="" values="" word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$command $word" in
      )" +
         patterns(all, " | ") +
         R"() command="$command $word" ;;
    esac
  done
  case "$command" in
)" + cases +
         R"(  esac
  [[ $current != -* ]] || values=$options
  COMPREPLY=($(compgen -W "$values" -- "$current"))
}
complete -o bashdefault -o default -F _paceline paceline
)";
}

std::string for_zsh(std::span<const CommandWords> all) {
  const auto described = [](const std::vector<Meaning>& meanings) {
    Words words;
    for (const Meaning& each : meanings) {
      words.push_back(in_single_quotes(each.word + ':' + each.meaning, "'\\''"));
    }
    return '(' + joined(words, "\n        ") + ')';
  };
  std::string cases;
  for (const CommandWords& command : all) {
    cases += "    \"" + command.place + "\")\n      options=" + described(command.options) + '\n';
    cases += command.commands.empty() ? "" : "      commands=" + described(command.commands) + '\n';
    cases += command.values.empty() ? "" : "      values=(" + joined(command.values, " ") + ")\n";
    for (const auto& [options, names] : command.values_after) {
      cases += "      case $words[CURRENT-1] in (" + joined(options, "|") + ") values=(" +
               joined(names, " ") + ") ;; esac\n";
    }
    cases += "      ;;\n";
  }
  return R"(#compdef paceline
# zsh completion for paceline, made by `paceline completion zsh`
_paceline() {
  local command="" word
  local -a commands options values
  for word in ${words[2,CURRENT-1]}; do
    case "$command $word" in
      ()" +
         patterns(all, " | ") +
         R"() command="$command $word" ;;
    esac
  done
  case "$command" in
)" + cases +
         R"(  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe option options
  elif (( $#commands )); then
    _describe command commands
  else
    (( $#values )) && compadd -a values
    _files
  fi
}
[[ $funcstack[1] = _paceline ]] && _paceline "$@" || compdef _paceline paceline
)";
}

std::string for_fish(std::span<const CommandWords> all) {
  const auto told = [](const std::string& meaning) {
    return meaning.empty() ? "" : " -d " + in_single_quotes(meaning, "\\'");
  };
  std::string lines;
  for (const CommandWords& command : all) {
    const std::string here =
        "complete -c paceline -n 'test (__paceline_command) = \"" + command.place + "\"' ";
    for (const Meaning& each : command.commands) {
      lines += here + "-f -a " + each.word + told(each.meaning) + '\n';
    }
    for (const Meaning& each : command.options) {
      const bool is_long = each.word.starts_with("--");
      lines += here + (is_long ? "-l " : "-s ") + each.word.substr(is_long ? 2 : 1) +
               (each.takes_value ? " -r" : "") + told(each.meaning) + '\n';
    }
    if (!command.values.empty()) {
      lines += here + "-a '" + joined(command.values, " ") + "'\n";
    }
    for (const auto& [options, names] : command.values_after) {
      for (const std::string& option : options) {
        const bool is_long = option.starts_with("--");
        lines += here + (is_long ? "-l " : "-s ") + option.substr(is_long ? 2 : 1) + " -r -a '" +
                 joined(names, " ") + "'\n";
      }
    }
  }
  return R"(# fish completion for paceline, made by `paceline completion fish`
function __paceline_command
  set -l command ""
  for word in (commandline -opc)[2..-1]
    switch "$command $word"
      case )" +
         patterns(all, " ") + R"(
        set command "$command $word"
    end
  end
  echo "$command"
end
)" + lines;
}

}  // namespace

std::string completion_script(const CLI::App& app, Shell shell) {
  std::vector<CommandWords> all;
  add(all, app, app, "");
  return shell == Shell::bash ? for_bash(all) : shell == Shell::zsh ? for_zsh(all) : for_fish(all);
}

}  // namespace paceline
