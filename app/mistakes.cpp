#include "app/mistakes.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "app/commands.h"
#include "core/names.h"
#include "core/text.h"
#include "core/unknown_name.h"
#include "scenarios/file_kind.h"
#include "scenarios/files.h"
#include "scenarios/json.h"
#include "scenarios/scenario.h"
#include "scenarios/schema_writer.h"
#include "topology/topology.h"

namespace paceline {
namespace {

using Names = std::vector<std::string>;

// What else people call a command.
constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {{"simulate", "run"},
                                                                         {"predict", "run"},
                                                                         {"train", "run"},
                                                                         {"why", "explain"},
                                                                         {"study", "sweep"},
                                                                         {"draw", "plot"},
                                                                         {"nccl-tests", "collective"},
                                                                         {"benchmark", "collective"},
                                                                         {"list", "presets"},
                                                                         {"models", "presets"},
                                                                         {"gpus", "presets"},
                                                                         {"clusters", "presets"},
                                                                         {"cluster", "topology"},
                                                                         {"check", "validate"},
                                                                         {"profile", "calibrate fit"},
                                                                         {"version", "--version"},
                                                                         {"usage", "help"},
                                                                         {"man", "help --man"},
                                                                         {"completions", "completion"},
                                                                         {"html", "report"},
                                                                         {"page", "report"},
                                                                         {"dashboard", "report"}};

const CLI::App* command_of(const CLI::App& app, const std::string& name) {
  const std::vector<const CLI::App*> all = commands_of(app);
  const auto found = std::ranges::find(all, name, [](const CLI::App* each) { return each->get_name(); });
  return found == all.end() ? nullptr : *found;
}

Names names_of_commands(const CLI::App& app) {
  Names names;
  for (const CLI::App* each : commands_of(app)) {
    names.push_back(each->get_name());
  }
  return names;
}

Names names_of_options(const CLI::App& command) {
  Names names;
  for (const CLI::Option* option : options_of(command)) {
    const Names of_this = names_of(*option);
    names.insert(names.end(), of_this.begin(), of_this.end());
  }
  return names;
}

// ---- a word where a command should be ----

constexpr std::string_view kFile = "FILE";
constexpr auto kLines = names<FileKind>({{"run FILE", FileKind::scenario},
                                         {"run FILE", FileKind::result},
                                         {"sweep FILE --out FOLDER", FileKind::study},
                                         {"run SCENARIO --profile FILE", FileKind::profile},
                                         {"validate FILE", FileKind::validation_set},
                                         {"topology FILE", FileKind::cluster},
                                         {"run FILE", FileKind::model},
                                         {"calibrate import FILE", FileKind::trace},
                                         {"calibrate import FILE", FileKind::measurements},
                                         {"run FILE", FileKind::unknown}});

// The line that takes this file; nothing where no command does.
std::optional<std::string> line_for_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    const bool named_so = path.ends_with(".json");
    return named_so ? std::optional("run " + path) : std::nullopt;
  }
  if (path.ends_with(".xml")) {
    return "topology " + path;
  }
  FileKind kind = FileKind::measurements;
  if (path.ends_with(".json")) {
    try {
      kind = kind_of(parse_json(read_file(path)));
    } catch (const InputError&) {
      kind = FileKind::unknown;
    }
  }
  std::string line(kLines[kind]);
  return line.replace(line.find(kFile), kFile.size(), path);
}

std::optional<std::string> line_for_name(const std::string& word) {
  const auto is_among = [&](const Names& names) { return std::ranges::find(names, word) != names.end(); };
  if (is_among(node_preset_names()) || is_among(cluster_names())) {
    return "topology " + word;
  }
  if (find_named<CollectiveKind>(word)) {
    return "collective " + word;
  }
  const auto* const other =
      std::ranges::find(kOtherWords, word, &std::pair<std::string_view, std::string_view>::first);
  return other == std::end(kOtherWords) ? std::nullopt : std::optional<std::string>(other->second);
}

InputError unknown_command(const CLI::App& app, const CLI::App& command, const std::string& place,
                           const std::string& word) {
  const Names known = names_of_commands(command);
  const auto instead = [&](const std::string& line) {
    return InputError(
        "expected a command, found " + in_quotes(word) + "; did you mean `paceline " + line + "`?", place);
  };
  for (const CLI::App* each : commands_of(app)) {  // `fit` is `calibrate fit`
    if (command_of(*each, word) != nullptr) {
      return instead(each->get_name() + ' ' + word);
    }
  }
  if (&command != &app && command_of(app, word) != nullptr) {
    return instead(word);
  }
  if (const std::optional<std::string> line = line_for_file(word)) {
    return instead(*line);
  }
  if (const std::optional<std::string> line = line_for_name(word);
      line && nearest_names(word, known).empty()) {
    return instead(*line);
  }
  return InputError(unknown_name("command", in_short(word), known), place);
}

// ---- options and other words of a command ----

// Where else an option of this name is: "`paceline collective` and `paceline calibrate fit`".
void add_commands_with(const CLI::App& app, const std::string& option, const std::string& place,
                       Names& commands) {
  for (const CLI::App* each : commands_of(app)) {
    const std::string name = place + ' ' + each->get_name();
    if (each->get_option_no_throw(option) != nullptr) {
      commands.push_back('`' + name + '`');
    }
    add_commands_with(*each, option, name, commands);
  }
}

std::string commands_with(const CLI::App& app, const std::string& option) {
  Names commands;
  add_commands_with(app, option, "paceline", commands);
  return joined(commands, ", ", " and ");
}

// What else people call an option, of commands that have it.
constexpr std::pair<std::string_view, std::string_view> kOtherOptions[] = {{"-g", "--gpus-per-process"},
                                                                           {"--gpus", "--gpus-per-node"},
                                                                           {"-N", "--nodes"},
                                                                           {"-o", "--out"},
                                                                           {"-j", "--jobs"},
                                                                           {"--threads", "--jobs"},
                                                                           {"--steps", "--iterations"},
                                                                           {"-s", "--set"},
                                                                           {"--output", "--out"},
                                                                           {"-q", "--quiet"}};
// And keys of a scenario that they call otherwise.
constexpr std::pair<std::string_view, std::string_view> kOtherKeys[] = {
    {"gpus", "/cluster/nodes"},
    {"node", "/cluster/node"},
    {"batch_size", "/training/batch_per_gpu"},
    {"batch", "/training/batch_per_gpu"}};

// "Did you mean --set /run/seed=...?" for a key of a scenario; else nothing.
std::string as_setting(const CLI::App& command, const std::string& option) {
  if (command.get_option_no_throw("--set") == nullptr || !option.starts_with("--")) {
    return {};
  }
  std::string key = option.substr(2);
  std::ranges::replace(key, '-', '_');
  const auto* const other =
      std::ranges::find(kOtherKeys, key, &std::pair<std::string_view, std::string_view>::first);
  std::string place;
  if (other != std::end(kOtherKeys)) {
    place = other->second;
  } else {
    const std::vector<KeyPlaces> keys = scenario_keys();
    const auto found = std::ranges::find(keys, key, &KeyPlaces::key);
    place = found == keys.end() ? "" : found->places.front() + '/' + key;
  }
  return place.empty() ? place : "Did you mean --set " + place + "=...?";
}

InputError unknown_option(const CLI::App& app, const CLI::App& command, const std::string& place,
                          const std::string& option) {
  const Names known = names_of_options(command);
  const auto* const other =
      std::ranges::find(kOtherOptions, option, &std::pair<std::string_view, std::string_view>::first);
  std::string elsewhere;
  if (other != std::end(kOtherOptions) &&
      command.get_option_no_throw(std::string(other->second)) != nullptr) {
    elsewhere = "Did you mean " + in_quotes(other->second) + '?';
  } else if (nearest_names(option, known).empty()) {
    elsewhere = as_setting(command, option);
    const std::string others = elsewhere.empty() ? commands_with(app, option) : "";
    elsewhere += others.empty() ? "" : "It is an option of " + others + '.';
  }
  return InputError(unknown_name("option", in_short(option), known, elsewhere), place);
}

std::string example_of(const CLI::App& command) {
  const std::string footer = command.get_footer();
  const std::size_t at = footer.find("Example: ");
  return at == std::string::npos ? "" : " " + footer.substr(at, footer.find('\n', at) - at);
}

// Its description up to a semicolon, as the rest of a sentence.
std::string short_description(const CLI::Option& option) {
  std::string text = option.get_description();
  text = text.substr(0, text.find(';'));
  if (text.size() > 1 && (text[1] == ' ' || (is_letter(text[1]) && text[1] == to_lower(text[1])))) {
    text[0] = to_lower(text[0]);
  }
  return text;
}

InputError missing_words(const CLI::App& command, const std::string& place,
                         std::span<const std::string> given, std::size_t positionals) {
  std::string text;
  for (const CLI::Option* option : options_of(command)) {
    const bool positional = option->get_positional();
    const bool there =
        positional
            ? positionals > 0
            : std::ranges::any_of(given, [&](const std::string& name) { return option->check_name(name); });
    positionals -= positional && there ? 1 : 0;
    if (option->get_required() && !there) {
      text += (text.empty() ? "missing " : "; and ") + option->get_name(positional, true) + ", " +
              short_description(*option);
    }
  }
  return InputError(text.empty() ? text : text + '.' + example_of(command), place);
}

InputError too_many_words(const CLI::App& command, const std::string& place, const std::string& word) {
  std::string text = "expected no further word, found " + in_quotes(word);
  if (word.find('=') != std::string::npos && command.get_option_no_throw("--set") != nullptr) {
    text += "; did you mean --set " + word + "?";
  } else {
    text += '.' + example_of(command);
  }
  return InputError(text, place);
}

// The command and the option that a word begins, and whether its value is in the word: "--seed=3", "-b8".
struct GivenOption {
  const CLI::Option* option = nullptr;
  std::string name;
  bool has_value = false;
};

GivenOption option_in(const CLI::App& command, const std::string& word) {
  const std::size_t equals = word.find('=');
  GivenOption given{nullptr, word.substr(0, equals), equals != std::string::npos};
  if (!word.starts_with("--") && word.size() > 2 &&
      command.get_option_no_throw(word.substr(0, 2)) != nullptr) {
    given = {nullptr, word.substr(0, 2), true};
  }
  given.option = command.get_option_no_throw(given.name);
  return given;
}

}  // namespace

InputError mistake_in(const CLI::App& app, std::span<const std::string> words,
                      const CLI::ParseError& refusal) {
  const CLI::App* command = &app;
  std::string place;
  std::size_t positionals = 0, most_positionals = 0;
  Names given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() > 1 && word.starts_with('-') && word != "--") {
      const GivenOption found = option_in(*command, word);
      if (found.option == nullptr) {
        return unknown_option(app, *command, place, found.name);
      }
      if (takes_value(*found.option) && !found.has_value && ++i == words.size()) {
        return InputError("expected a value after " + found.name + ": " + short_description(*found.option),
                          place);
      }
      if (std::ranges::find(given, found.name) != given.end() &&
          found.option->get_items_expected_max() == 1) {
        return InputError("expected " + found.name + " once, found it twice", place);
      }
      given.push_back(found.name);
    } else if (const CLI::App* next = positionals == 0 ? command_of(*command, word) : nullptr) {
      command = next;
      place += (place.empty() ? "" : " ") + word;
      most_positionals = 0;
      for (const CLI::Option* option : options_of(*command)) {
        most_positionals +=
            option->get_positional() ? static_cast<std::size_t>(option->get_items_expected_max()) : 0;
      }
    } else if (!commands_of(*command).empty()) {
      return unknown_command(app, *command, place, word);
    } else if (++positionals > most_positionals) {
      return too_many_words(*command, place, word);
    }
  }
  if (!commands_of(*command).empty()) {
    const Names known = names_of_commands(*command);
    return InputError("expected a command after it: " + quoted_list(known, "or") + '.' + example_of(*command),
                      place);
  }
  const InputError missing = missing_words(*command, place, given, positionals);
  return missing.message().empty() ? InputError(refusal.what(), place) : missing;
}

const CLI::App& command_named(const CLI::App& app, std::span<const std::string> words) {
  const CLI::App* command = &app;
  std::string place;
  for (const std::string& word : words) {
    const CLI::App* next = command_of(*command, word);
    if (next == nullptr) {
      throw unknown_command(app, *command, place, word);
    }
    command = next;
    place += (place.empty() ? "" : " ") + word;
  }
  return *command;
}

}  // namespace paceline
