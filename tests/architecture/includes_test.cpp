// Who includes whom: only along the arrows of docs/architecture.md, which names the files of the main path; no state
// that outlives a call; and names of enums in tables that the compiler checks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/files.h"

namespace {

namespace fs = std::filesystem;
using paceline::kSource, paceline::lines_of, paceline::text_of;

using Names = std::set<std::string>;

const std::map<std::string, Names> kMayInclude{
    {"core", {"core"}},
    {"topology", {"core", "topology"}},
    {"kernels", {"core", "kernels"}},
    {"sim", {"core", "topology", "kernels", "sim"}},
    {"scenarios", {"core", "topology", "kernels", "sim", "scenarios"}},
    {"calibrate", {"core", "topology", "kernels", "sim", "scenarios", "calibrate"}},
    {"studies", {"core", "topology", "kernels", "sim", "scenarios", "calibrate", "studies"}},
    {"app", {"core", "topology", "kernels", "sim", "scenarios", "calibrate", "studies", "app"}},
};

// Rooms within rooms that may include less than their room: what is simulated knows nothing of how; the
// measuring programs are to run where nothing of the simulator is installed, and what only they run is not
// known to it.
const std::map<std::string, Names> kLess{
    {"sim/collective", {"core", "topology", "sim/collective"}},
    {"sim/network", {"core", "topology", "sim/network"}},
    {"sim/strategy",
     {"core", "topology", "kernels", "sim/collective", "sim/job.h", "sim/training.h", "sim/strategy"}},
    {"sim/engine",
     {"core", "topology", "sim/collective", "sim/network", "sim/job.h", "sim/training.h", "sim/engine"}},
    {"sim/layers",
     {"core", "topology", "kernels", "sim/job.h", "sim/training.h", "sim/strategy", "sim/engine",
      "sim/layers"}},
    {"sim/report",
     {"core", "topology", "sim/collective", "sim/job.h", "sim/training.h", "sim/engine", "sim/report"}},
    {"sim/campaign", {"core", "sim/campaign"}},
    {"calibrate/measure", {"core", "kernels", "calibrate/measure_help.h", "calibrate/measure"}},
    {"calibrate/import",
     {"core", "topology", "kernels", "sim", "scenarios", "calibrate/measurement.h", "calibrate/import"}},
    {"calibrate/fit",
     {"core", "topology", "kernels", "sim", "scenarios", "calibrate/measurement.h", "calibrate/import",
      "calibrate/fit"}},
};

// What only these may include.
const std::map<std::string, Names> kOnlyFor{
    {"kernels/cpu", {"kernels/cpu", "calibrate/measure"}},
    {"kernels/cuda", {"kernels/cuda", "calibrate/measure"}},
    {"calibrate/measure", {"calibrate/measure"}},
};

bool in_code(const fs::path& file) {
  static const Names kEndings{".h", ".cpp", ".cu", ".cuh"};
  return kEndings.count(file.extension()) == 1;
}

std::vector<fs::path> sources(const std::string& room) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / room)) {
    if (in_code(entry.path())) {
      files.push_back(entry.path());
    }
  }
  REQUIRE_FALSE(files.empty());
  return files;
}

std::vector<std::string> lines(const fs::path& file) { return lines_of(text_of(file)); }

// Whether a file is of one of these rooms.
bool is_of(const std::string& file, const Names& rooms) {
  return std::any_of(rooms.begin(), rooms.end(),
                     [&](const std::string& room) { return file == room || file.rfind(room + '/', 0) == 0; });
}

std::string within_tree(const fs::path& file) { return fs::relative(file, kSource).generic_string(); }

// The files of the tree that a file includes.
std::vector<std::string> own_includes(const fs::path& file) {
  const std::regex own(R"re(^\s*#include\s+"([a-z_]+/.*)".*)re");
  std::vector<std::string> all;
  for (const std::string& line : lines(file)) {
    if (std::smatch match; std::regex_match(line, match, own)) {
      all.push_back(match[1]);
    }
  }
  return all;
}

TEST_CASE("every room includes only what its arrows allow") {
  for (const std::map<std::string, Names>* rooms : {&kMayInclude, &kLess}) {
    for (const auto& [room, allowed] : *rooms) {
      for (const fs::path& file : sources(room)) {
        for (const std::string& included : own_includes(file)) {
          INFO(file << ": " << included);
          CHECK(is_of(included, allowed));
        }
      }
    }
  }
}

TEST_CASE("no type has the name of another: linked together they would be taken for one") {
  const std::regex type(R"re(^(struct|class) ([A-Z]\w*)( final)?( :.*)? ?\{.*)re");
  const Names apart{"calibrate/measure", "kernels/cuda",
                    "kernels/cpu"};  // programs and namespaces of their own
  std::map<std::string, std::string> known;
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      if (file.extension() != ".h" || is_of(within_tree(file), apart)) {
        continue;
      }
      for (const std::string& line : lines(file)) {
        if (std::smatch match; std::regex_match(line, match, type)) {
          const auto [other, added] = known.try_emplace(match[2], within_tree(file));
          INFO(match[2] << ": " << other->second << " and " << within_tree(file));
          CHECK(added);
        }
      }
    }
  }
  CHECK(known.count("StudyPoint") == 1);
}

TEST_CASE("what only the measuring programs run is not known to the simulator") {
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& included : own_includes(file)) {
        for (const auto& [kept, users] : kOnlyFor) {
          INFO(file << ": " << included);
          CHECK((!is_of(included, {kept}) || is_of(within_tree(file), users)));
        }
      }
    }
  }
}

struct CalledFile {
  std::string file, function;
};

// The items of docs/architecture.md, "From the command to the step time": number, file, function, what it does.
std::vector<CalledFile> way_to_the_step_time() {
  const std::regex item(R"re(^\d+\. `([a-z_/]+\.cpp)`, `([\w:]+)`: .*)re");
  std::vector<CalledFile> way;
  for (const std::string& line : lines(kSource / "docs/architecture.md")) {
    if (std::smatch match; std::regex_match(line, match, item)) {
      way.push_back({match[1], match[2]});
    }
  }
  return way;
}

// The headers that a file includes, those that they include, and so on.
void add_headers(const std::string& file, Names& headers) {
  for (const std::string& included : own_includes(kSource / file)) {
    if (headers.insert(included).second) {
      add_headers(included, headers);
    }
  }
}

bool has_line(const std::string& file, const std::regex& beginning) {
  const std::vector<std::string> text = lines(kSource / file);
  return std::any_of(text.begin(), text.end(), [&](const std::string& line) {
    return std::regex_search(line, beginning, std::regex_constants::match_continuous);
  });
}

TEST_CASE("the way from the command to the step time: each file implements a header of one before it") {
  const std::vector<CalledFile> way = way_to_the_step_time();
  REQUIRE(way.size() >= 10);
  CHECK(way.size() <= 15);
  CHECK(way.front().file == "app/run.cpp");
  CHECK(way.back().file == "sim/report/report.cpp");
  Names before;  // headers that the files before it include
  for (const auto& [file, function] : way) {
    INFO(file << ": " << function);
    Names headers;
    add_headers(file, headers);
    CHECK(has_line(file, std::regex(R"(\w.*\b)" + function + R"(\()")));
    const std::size_t scope = function.find("::");
    const std::regex declared(scope == function.npos
                                  ? R"(\w[^=]* )" + function + R"(\()"
                                  : "(class|struct) " + function.substr(0, scope) + R"(\b.*\{)");
    CHECK((before.empty() || std::any_of(before.begin(), before.end(), [&](const std::string& header) {
             return headers.count(header) == 1 && has_line(header, declared);
           })));
    before.insert(headers.begin(), headers.end());
  }
}

TEST_CASE("each library is known in one place only") {
  const std::vector<std::pair<std::regex, Names>> users_of{
      {std::regex(R"(^\s*#include\s+<nlohmann/.*)"), {"scenarios/json.cpp", "scenarios/json_stream.cpp"}},
      {std::regex(R"(^\s*#include\s+<CLI/.*)"), {"app"}},
      {std::regex(R"(^\s*#include\s+<boost/.*)"), {"topology"}},
      {std::regex(R"(^\s*#include\s+<(ceres|Eigen)/.*)"), {"calibrate/fit"}},
      {std::regex(R"(^\s*#include\s+<(csv|zlib)\.h>.*)"), {"calibrate/import"}},
      {std::regex(R"(^\s*#include\s+<(mpi|nccl|nvml|cuda\w*|cublas\w*)\.h>.*)"),
       {"calibrate/measure", "kernels/cuda"}},
      {std::regex(R"(^\s*#include\s+<fstream>.*)"), {"scenarios", "calibrate/measure"}},
      {std::regex(R"(^\s*#include\s+"scenarios/builtin_files.h".*)"), {"scenarios/named_json.cpp"}},
  };
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& line : lines(file)) {
        for (const auto& [include, users] : users_of) {
          INFO(file << ": " << line);
          CHECK((!std::regex_match(line, include) || is_of(within_tree(file), users)));
        }
      }
    }
  }
}

TEST_CASE("labels of operations are read by pages and traces alone") {
  const std::regex label(R"(.*\b(op|ops\[[^\]]*\]|collective)(\.|->)label\b.*)");
  CHECK(std::regex_match("  out << op.label;", label));
  CHECK(std::regex_match("  out << job.main().steady.ops[at_].label;", label));
  const Names readers{"sim/job.cpp",           "sim/report/critical_path.cpp",
                      "sim/report/report.cpp", "scenarios/trace_json.cpp",
                      "studies/run_view.cpp",  "calibrate/replay"};
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& line : lines(file)) {
        INFO(file << ": " << line);
        CHECK((!std::regex_match(line, label) || is_of(within_tree(file), readers)));
      }
    }
  }
}

TEST_CASE("no number is read or written as the locale has it") {
  const std::regex of_locale(
      R"(.*\b(strto(d|f|l|ld|ll|ul|ull)|sto(d|f|i|l|ld|ll|ul|ull)|ato(f|i|l|ll)|v?sn?printf|f?scanf|sscanf|)"
      R"(tolower|toupper|is(alnum|alpha|digit|lower|print|punct|space|upper|xdigit)|setlocale)\s*\(.*)");
  CHECK(std::regex_match("  x = std::stod(text);", of_locale));
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      if (within_tree(file) == "core/text.cpp") {
        continue;  // it says which locale
      }
      for (const std::string& line : lines(file)) {
        INFO(file << ": " << line);
        CHECK_FALSE(std::regex_match(line, of_locale));
      }
    }
  }
}

TEST_CASE("a type's other name is said by using") {
  const std::regex by_typedef(R"(^\s*typedef\b.*)");
  CHECK(std::regex_match("  typedef int Count;", by_typedef));
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& line : lines(file)) {
        INFO(file << ": " << line);
        CHECK_FALSE(std::regex_match(line, by_typedef));
      }
    }
  }
}

TEST_CASE("no mutable static, no environment, no exit in a library") {
  const std::regex mutable_static(
      R"(^\s*(static|thread_local)\s+(?!const|constexpr|inline|auto\s|void|bool\s+\w+\(|[\w:<>*& ]+\().*;.*)");
  const std::regex forbidden(R"(.*\b(getenv|setenv|exit|abort|std::rand|srand)\s*\(.*)");
  CHECK(std::regex_match("static int calls = 0;", mutable_static));
  CHECK(std::regex_match("  std::exit(1);", forbidden));
  const Names programs{"app", "calibrate/measure"};
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& line : lines(file)) {
        INFO(file << ": " << line);
        CHECK_FALSE(std::regex_match(line, mutable_static));
        CHECK_FALSE((!is_of(within_tree(file), programs) && std::regex_match(line, forbidden)));
      }
    }
  }
}

// A line and the next one: where formatting has broken a statement.
std::string with_next(const std::vector<std::string>& text, std::size_t i) {
  const std::string next = i + 1 < text.size() ? text[i + 1] : "";
  return text[i] + ' ' + next.substr(std::min(next.find_first_not_of(' '), next.size()));
}

// The array of texts that is declared here, or "".
std::string text_array(const std::string& statement) {
  if (statement.find('"') == std::string::npos || statement.find('{') == std::string::npos) {
    return {};
  }
  const std::regex declared(
      R"re((array<(const char ?\*( const)?|std::string(_view)?),[^;]*>|array|vector<std::string>) (\w+)( = )?\{+ *".*)re");
  const std::regex in_c(R"re((const char ?\*( const)?|std::string(_view)?) ?(\w+)\[\w*\] = \{+ *".*)re");
  std::smatch match;
  return std::regex_search(statement, match, declared) ? match[5]
         : std::regex_search(statement, match, in_c)   ? match[4]
                                                       : std::string();
}

// What names an enum's values otherwise than by core/names.h: an array of texts that is subscripted, a switch
// that returns texts, rows of text and enumerator in a table of its own kind. `shared`: arrays of all headers.
std::vector<std::string> names_apart(const std::vector<std::string>& text, const Names& shared) {
  const std::regex row(R"re(\{"[^"]*", \w+(::\w+)+\})re");
  const std::regex returned(R"re(.*\bcase [\w:]+::\w+: *return ".*)re");
  std::vector<std::string> found;
  Names arrays = shared;
  bool in_table = false;  // of core/names.h
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string& line = text[i];
    const std::string whole = with_next(text, i), array = text_array(whole);
    if (!array.empty()) {
      arrays.insert(array);
    }
    const auto subscripted = [&](const std::string& name) {
      const std::size_t at = line.find(name + '[');
      const bool another =
          at == std::string::npos ||
          (at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 || line[at - 1] == '_'));
      return !another && text_array(whole) != name;
    };
    in_table =
        in_table || line.find("names<") != std::string::npos || line.find("Named<") != std::string::npos;
    const bool apart = !in_table && line.find("{\"") != std::string::npos && std::regex_search(line, row);
    const bool switched = line.find("case ") != std::string::npos && std::regex_match(whole, returned);
    if (apart || switched || std::any_of(arrays.begin(), arrays.end(), subscripted)) {
      found.push_back(line);
    }
    in_table = in_table && line.find(';') == std::string::npos;
  }
  return found;
}

TEST_CASE("enums are named by core/names.h alone") {
  const auto found = [](std::vector<std::string> text) { return names_apart(text, {"kOfAHeader"}).size(); };
  CHECK(found({R"(constexpr std::array<const char*, 2> kLinks{"NVLink", "PCIe"};)", "text += kLinks[i];"}) ==
        1);
  CHECK(found({"constexpr std::array<std::string_view, 2> kLinks{", R"(    "NVLink", "PCIe"};)",
               "f(kLinks[0]);"}) == 1);
  CHECK(found({R"(inline constexpr const char* kLinks[] = {"nvlink"};)",
               "f(kLinks[static_cast<int>(k)]);"}) == 1);
  CHECK(found({"text += kOfAHeader[static_cast<std::size_t>(kind)];"}) == 1);
  CHECK(found({"    case Link::nvlink:", R"(      return "nvlink";)"}) == 1);
  CHECK(found({R"(constexpr Name kLinks[] = {{"nvlink", Link::nvlink},)", R"(    {"pcie", Link::pcie}};)"}) ==
        2);
  CHECK(found({"constexpr auto kLinks = names<Link>(", R"(    {{"nvlink", Link::nvlink}});)",
               "f(kLinks[kind]);"}) == 0);
  CHECK(found({R"(constexpr Named<Link> kWords[] = {{"NVLink", Link::nvlink}};)"}) == 0);
  CHECK(found({R"(constexpr std::array<const char*, 2> kColumns{"size", "time"};)", "read(kColumns);"}) == 0);

  Names shared;
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      const std::vector<std::string> text = lines(file);
      for (std::size_t i = 0; file.extension() == ".h" && i < text.size(); ++i) {
        shared.insert(text_array(with_next(text, i)));
      }
    }
  }
  shared.erase("");
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      for (const std::string& line : names_apart(lines(file), shared)) {
        FAIL_CHECK(within_tree(file) << ": " << line);
      }
    }
  }
}

TEST_CASE("the version stands in core/version.h alone") {
  const std::regex written(R"re(project\(.* VERSION [0-9]|^version *=|"paceline [0-9]|__version__ = ")re");
  CHECK(std::regex_search("version = \"0.1\"", written));
  std::vector<fs::path> files{kSource / "CMakeLists.txt", kSource / "calibrate/measure/CMakeLists.txt",
                              kSource / "pyproject.toml", kSource / "python/paceline/__init__.py"};
  for (const auto& [room, allowed] : kMayInclude) {
    for (const fs::path& file : sources(room)) {
      files.push_back(file);
    }
  }
  for (const fs::path& file : files) {
    for (const std::string& line : lines(file)) {
      INFO(within_tree(file) << ": " << line);
      const bool worth_a_look = line.find("VERSION") != line.npos || line.find("version") != line.npos ||
                                line.find("paceline ") != line.npos;
      CHECK_FALSE((worth_a_look && std::regex_search(line, written)));
    }
  }
}

}  // namespace
