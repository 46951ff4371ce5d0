#include "app/manual.h"

#include "app/commands.h"
#include "core/version.h"

namespace paceline {
namespace {

// Text as roff takes it: what is in backquotes becomes bold.
std::string roff(const std::string& text) {
  std::string page;
  bool bold = false;
  for (const char c : text) {
    const bool begins_line = page.empty() || page.back() == '\n';
    switch (c) {
      case '\\':
        page += "\\e";
        break;
      case '-':
        page += "\\-";
        break;
      case '`':
        bold = !bold;
        page += bold ? "\\fB" : "\\fR";
        break;
      default:
        page += begins_line && (c == '.' || c == '\'') ? "\\&" : "";
        page += c;
    }
  }
  return page;
}

std::string in_bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string in_italics(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

// "-o, --out TEXT (required)" and what it means.
std::string entry(const CLI::Option& option) {
  std::string head;
  for (const std::string& name : names_of(option)) {
    head += (head.empty() ? "" : ", ") + in_bold(name);
  }
  if (option.get_positional()) {
    head = in_italics(option.get_name(true));
  } else if (takes_value(option)) {
    head += ' ' + in_italics(option.get_type_name());
  }
  const std::string value = option.get_default_str();
  return ".TP\n" + head + '\n' + roff(option.get_description()) +
         (option.get_required() ? " (required)" : "") +
         (value.empty() ? "" : " (" + roff(value) + " if left out)") + '\n';
}

std::string entries(const CLI::App& command) {
  std::string text;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : options_of(command)) {
      text += option->get_positional() == positional ? entry(*option) : "";
    }
  }
  return text;
}

std::string as_it_stands(const std::string& text) { return ".PP\n.nf\n" + roff(text) + "\n.fi\n"; }

std::string sections(const CLI::App& command, const std::string& name) {
  std::string text = ".SS " + roff(name) + '\n' + roff(command.get_description()) + '\n' + entries(command) +
                     as_it_stands(command.get_footer());
  for (const CLI::App* below : commands_of(command)) {
    text += sections(*below, name + ' ' + below->get_name());
  }
  return text;
}

// "Paceline predicts how ... scales: it simulates ..."
std::string in_one_line(const std::string& description) {
  const std::size_t begin = description.find(' ') + 1;
  return description.substr(begin, description.find(':') - begin);
}

}  // namespace

std::string manual_page(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string page = R"(.\" Made by `paceline help --man`.
.TH PACELINE 1 "" "paceline )" +
                     std::string(kVersion) + R"(" "User Commands"
.SH NAME
)" + name + R"( \- )" +
                     roff(in_one_line(app.get_description())) + R"(
.SH SYNOPSIS
.B )" + name + R"(
.I COMMAND
.RI [ OPTIONS ]
.SH DESCRIPTION
)" + roff(app.get_description()) +
                     '\n' + as_it_stands(app.get_footer()) + R"(.SH OPTIONS
)" + entries(app) + ".SH COMMANDS\n";
  for (const CLI::App* command : commands_of(app)) {
    page += sections(*command, name + ' ' + command->get_name());
  }
  return page + R"(.SH FILES
.TP
.I share/paceline/scenarios
Below the prefix of the installation: examples, studies, the sets that
.B paceline validate
runs, and the JSON Schema of a scenario.
)";
}

}  // namespace paceline
