#include "scenarios/schema_markdown.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace paceline {
namespace {

constexpr std::size_t kShortDefault = 40;  // characters of an object that is shown as a default
constexpr std::size_t kLineLength = 120;

std::string text_at(const Json& schema, std::string_view key) {
  const Json* json = schema.find(key);
  const auto* text = json != nullptr ? json->as<std::string>() : nullptr;
  return text != nullptr ? *text : "";
}

std::span<const Json> list_at(const Json& schema, std::string_view key) {
  const Json* json = schema.find(key);
  const auto* list = json != nullptr ? json->as<Json::Array>() : nullptr;
  return list != nullptr ? std::span<const Json>(*list) : std::span<const Json>();
}

std::string code(const std::string& text) { return '`' + text + '`'; }

// Lines of at most kLineLength characters, broken at spaces; all but the first begin with `indent`.
std::string wrapped(std::string_view text, const std::string& indent) {
  std::string all, line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) {
      line = word;
    } else if (line.size() + 1 + word.size() <= kLineLength) {
      line += ' ' + word;
    } else {
      all += line + '\n';
      line = indent + word;
    }
  }
  return all + line + '\n';
}

// '<' would begin a tag.
std::string escaped(std::string_view text) {
  std::string all;
  for (const char c : text) {
    all += c == '<' ? "&lt;" : std::string(1, c);
  }
  return all;
}

// The name that GitHub gives a heading.
std::string anchor_of(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    if (is_letter(c) || is_digit(c) || c == '_' || c == '-') {
      anchor += to_lower(c);
    } else if (c == ' ') {
      anchor += '-';
    }
  }
  return anchor;
}

// Whether the schema, in one of its forms, is an object with keys of its own, or a list of such.
bool has_keys(const Json& schema) {
  const Json* items = schema.find("items");
  return schema.find("properties") != nullptr || std::ranges::any_of(list_at(schema, "anyOf"), has_keys) ||
         (items != nullptr && has_keys(*items));
}

// The keys alone, without what they are for here.
std::string shape_of(const Json& schema) {
  Json::Object shape;
  for (const JsonMember& member : *schema.as<Json::Object>()) {
    if (member.key != "description" && member.key != "default" && member.key != "title") {
      shape.push_back(member);
    }
  }
  return to_line(Json(std::move(shape)));
}

std::string names_of(const Json& schema) {
  std::vector<std::string> all;
  for (const Json& name : list_at(schema, "enum")) {
    const auto* text = name.as<std::string>();
    all.push_back(code(text != nullptr ? *text : to_line(name)));
  }
  return joined(all, ", ");
}

// ", 1 to 10", ", above 0 to 1", or nothing.
std::string range_of(const Json& schema, const char* least, const char* most) {
  const Json* from = schema.find(least);
  const Json* above = schema.find("exclusiveMinimum");
  const Json* to = schema.find(most);
  const std::string begin = from != nullptr    ? to_line(*from)
                            : above != nullptr ? "above " + to_line(*above)
                                               : "";
  if (begin.empty() || to == nullptr) {
    return begin.empty() ? "" : ", from " + begin;
  }
  return ", " + begin + (above != nullptr ? ", at most " : " to ") + to_line(*to);
}

std::string default_of(const Json& schema) {
  const Json* value = schema.find("default");
  if (value == nullptr) {
    return "";
  }
  const auto* text = value->as<std::string>();
  const std::string line = text != nullptr ? *text : to_line(*value);
  return value->as<Json::Object>() != nullptr && line.size() > kShortDefault ? "" : code(line);
}

// The page, section by section in the order of the keys.
class Page {
 public:
  std::string of(const Json& root) {
    section("", root);
    const std::string title = text_at(root, "title");
    return "# " + (title.empty() ? "Keys" : title) + "\n\n" + wrapped(text_at(root, "description"), "") +
           "\nA key that is not required may be left out; one that is not listed is an error.\n" +
           quantities() + "\n## The file\n" + body_;
  }

 private:
  struct Quantity {
    std::string units, example;
  };
  struct Child {
    std::string heading;
    const Json* schema = nullptr;
  };

  void section(const std::string& heading, const Json& schema) {
    std::vector<Child> children;
    if (!heading.empty()) {
      const bool deep = heading.find('.') != std::string::npos;
      body_ += (deep ? "\n### " : "\n## ") + code(heading) + '\n';
    }
    const std::span<const Json> forms = list_at(schema, "anyOf");
    for (const Json& form : forms) {
      this->form(heading, form, children);
    }
    if (forms.empty()) {
      keys(heading, schema, children);
    }
    for (const Child& child : children) {
      section(child.heading, *child.schema);
    }
  }

  // One of several ways to write a value.
  void form(const std::string& heading, const Json& form, std::vector<Child>& children) {
    const std::string title = text_at(form, "title");
    const std::string as = "As " + (title.empty() ? value_of(heading, form, children) : title);
    if (form.find("properties") != nullptr) {
      body_ += '\n' + wrapped(as + ':', "");
      keys(heading, form, children);
    } else {
      const std::string names = names_of(form);
      body_ += '\n' + wrapped(as + (names.empty() ? "." : ": " + names + '.'), "");
    }
  }

  void keys(const std::string& heading, const Json& schema, std::vector<Child>& children) {
    const Json* properties = schema.find("properties");
    const auto* members = properties != nullptr ? properties->as<Json::Object>() : nullptr;
    if (members == nullptr) {
      return;
    }
    const std::span<const Json> required = list_at(schema, "required");
    body_ += '\n';
    for (const JsonMember& member : *members) {
      const bool must = std::ranges::any_of(required, [&](const Json& name) {
        const auto* text = name.as<std::string>();
        return text != nullptr && *text == member.key;
      });
      const std::string below = heading.empty() ? member.key : heading + '.' + member.key;
      const std::string otherwise = default_of(member.value);
      body_ += wrapped("- **" + code(member.key) + "** (" + (must ? "required; " : "") +
                           escaped(value_of(below, member.value, children)) +
                           (must || otherwise.empty() ? "" : "; default " + otherwise) +
                           "): " + escaped(text_at(member.value, "description")),
                       "  ");
    }
  }

  // What a value may be, in a few words; objects become children of the section.
  std::string value_of(const std::string& heading, const Json& schema, std::vector<Child>& children) {
    const std::string title = text_at(schema, "title"), type = text_at(schema, "type");
    if (!list_at(schema, "anyOf").empty()) {
      return forms_of(heading, schema, children);
    }
    if (type == "object") {
      return '[' + (title.empty() ? "object" : title) + ']' + target_of(heading, schema, children);
    }
    if (const Json* items = schema.find("items")) {
      return "list" + range_of(schema, "minItems", "maxItems") + ": " +
             value_of(heading + "[]", *items, children);
    }
    if (!list_at(schema, "enum").empty()) {
      return names_of(schema);
    }
    if (type == "string") {
      note_quantity(schema, title);
      return title.empty() ? "text" : title;
    }
    return type.empty()        ? "any value"
           : type == "boolean" ? "true or false"
           : type == "integer" ? "whole number" + range_of(schema, "minimum", "maximum")
                               : type + range_of(schema, "minimum", "maximum");
  }

  // What needs more room than a cell is linked.
  std::string forms_of(const std::string& heading, const Json& schema, std::vector<Child>& children) {
    const std::string target = has_keys(schema) ? target_of(heading, schema, children) : "";
    std::string all;
    for (const Json& form : list_at(schema, "anyOf")) {
      const bool large = form.find("properties") != nullptr || form.find("enum") != nullptr;
      std::string label = text_at(form, "title");
      label = label.empty() ? (large ? "object" : value_of(heading, form, children)) : label;
      all += all.empty() ? "" : "; or ";
      all += large && !target.empty() ? '[' + label + ']' + target : label;
    }
    return all;
  }

  // "(#anchor)" of this heading, or of the first one with the same keys.
  std::string target_of(const std::string& heading, const Json& schema, std::vector<Child>& children) {
    const auto [first, is_new] = first_.try_emplace(shape_of(schema), heading);
    if (is_new) {
      children.push_back({heading, &schema});
    }
    return "(#" + anchor_of(first->second) + ')';
  }

  // A text with examples and a pattern that ends in its units.
  void note_quantity(const Json& schema, const std::string& title) {
    const std::string pattern = text_at(schema, "pattern");
    const std::size_t begin = pattern.rfind(" (");
    const std::span<const Json> examples = list_at(schema, "examples");
    if (begin != std::string::npos && pattern.ends_with(")$") && !examples.empty()) {
      std::string units = pattern.substr(begin + 2, pattern.size() - begin - 4);
      std::ranges::replace(units, '|', ' ');
      quantities_.try_emplace(title.substr(0, title.find(',')), Quantity{units, to_line(examples.front())});
    }
  }

  std::string quantities() const {
    std::string text;
    for (const auto& [noun, quantity] : quantities_) {
      text += "| " + noun + " | " + quantity.units + " | " + code(quantity.example) + " |\n";
    }
    return text.empty() ? ""
                        : "\n## Quantities\n\n" +
                              wrapped(
                                  "A number, a space and a unit, in quotes. k, M, G, T, P and E count in "
                                  "thousands; Ki, Mi, Gi and Ti in 1024; B is a byte, b a bit.",
                                  "") +
                              "\n| quantity | units | example |\n|---|---|---|\n" + text;
  }

  std::string body_;
  std::map<std::string, std::string> first_;  // keys of an object -> the heading of their list
  std::map<std::string, Quantity> quantities_;
};

}  // namespace

std::string schema_markdown(const Json& schema) { return Page().of(schema); }

}  // namespace paceline
