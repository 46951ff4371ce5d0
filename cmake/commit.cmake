# paceline_commit(TARGET): compiles the commit (app/commit.h) into TARGET. It is asked for at every build, and only
# what it stands in is compiled again, when it is another one. The file is also the script that a build runs.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(paceline_commit target)
    set(file ${CMAKE_BINARY_DIR}/commit.cpp)
    add_custom_target(paceline_commit BYPRODUCTS ${file} COMMENT "The commit"
                      COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D FILE=${file}
                              -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
    target_sources(${target} PRIVATE ${file})
    set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # else all else is compiled with it
    add_dependencies(${target} paceline_commit)
  endfunction()
  return()
endif()

set(commit "")
if(EXISTS ${SOURCE}/.git)  # not in a tarball, even one that was unpacked in another repository
  execute_process(COMMAND git -C ${SOURCE} describe --tags --match "v[0-9]*" --always --dirty --abbrev=12
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${FILE} CONTENT [[
#include "app/commit.h"
namespace paceline {
std::string_view commit() { return "@commit@"; }
}  // namespace paceline
]] @ONLY)
