# paceline_embed(TARGET DIR...): compiles every DIR/*.json into TARGET as scenarios/builtin_files.h describes.
function(paceline_embed target)
  set(table "")
  foreach(dir ${ARGN})
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${dir}/*.json)
    get_filename_component(kind ${dir} NAME)
    foreach(file ${files})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
      get_filename_component(name ${file} NAME_WE)
      file(READ ${file} text)
      # sv: their lengths are more than a compiler counts in a constant expression.
      string(APPEND table "    {\"${kind}\", \"${name}\", R\"paceline(${text})paceline\"sv},\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/builtin_files.cpp CONTENT [[
#include "scenarios/builtin_files.h"
namespace paceline {
namespace {
using namespace std::string_view_literals;
constexpr BuiltinFile kFiles[] = {
@table@};
}
std::span<const BuiltinFile> builtin_files() { return kFiles; }
}  // namespace paceline
]] @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/builtin_files.cpp)
endfunction()
