# What an installation holds, below its prefix:
#   bin/paceline, and the measuring programs that were built
#   share/man/man1, and completion where bash, zsh and fish look for it: made by the program of what --help says
#   share/paceline/scenarios: examples, studies, validation sets, models, clusters and the schema
# Components: program, zsh; measure, measure_nccl; debian, debian_measure: what only packages have; python: what only a
# wheel has (python/CMakeLists.txt).
include(GNUInstallDirs)

set(pages ${CMAKE_BINARY_DIR}/pages)
file(MAKE_DIRECTORY ${pages})
function(paceline_page file)
  add_custom_command(OUTPUT ${pages}/${file} DEPENDS paceline VERBATIM
                     COMMAND sh -c "\"$1\" $2 > \"$3\"" -- $<TARGET_FILE:paceline> "${ARGN}" ${pages}/${file})
  set_property(GLOBAL APPEND PROPERTY paceline_pages ${pages}/${file})
endfunction()
paceline_page(paceline.1 "help --man")
paceline_page(paceline.bash "completion bash")
paceline_page(_paceline "completion zsh")
paceline_page(paceline.fish "completion fish")
get_property(files GLOBAL PROPERTY paceline_pages)
add_custom_target(paceline_pages ALL DEPENDS ${files})

# paceline_install_data(SHARE COMPONENT): what lies in share/.
function(paceline_install_data share component)
  install(FILES ${pages}/paceline.1 DESTINATION ${share}/man/man1 COMPONENT ${component} ${ARGN})
  install(FILES ${pages}/paceline.bash RENAME paceline DESTINATION ${share}/bash-completion/completions
          COMPONENT ${component} ${ARGN})
  install(FILES ${pages}/paceline.fish DESTINATION ${share}/fish/vendor_completions.d COMPONENT ${component} ${ARGN})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/scenarios DESTINATION ${share}/paceline COMPONENT ${component} ${ARGN}
          FILES_MATCHING PATTERN *.json PATTERN *.csv PATTERN *.md)
endfunction()

install(TARGETS paceline RUNTIME COMPONENT program)
paceline_install_data(${CMAKE_INSTALL_DATADIR} program)
install(FILES ${pages}/_paceline DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT zsh)
if(TARGET paceline-measure-mpi)
  install(TARGETS paceline-measure-mpi RUNTIME COMPONENT measure)
endif()
if(TARGET paceline-measure-nccl)  # in no package: its libraries are seldom Debian's
  set_target_properties(paceline-measure-nccl PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)
  install(TARGETS paceline-measure-nccl RUNTIME COMPONENT measure_nccl)
endif()

# cpack -G DEB: paceline, and paceline-measure where MPI was found. Debian's zsh looks elsewhere.
install(FILES ${pages}/_paceline DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT debian
        EXCLUDE_FROM_ALL)
file(CONFIGURE OUTPUT ${pages}/copyright CONTENT [[
Copyright 2026 The Paceline authors

License: Apache-2.0, on Debian systems in /usr/share/common-licenses/Apache-2.0
]])
install(FILES ${pages}/copyright CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/paceline COMPONENT debian
        EXCLUDE_FROM_ALL)
install(FILES ${pages}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/paceline-measure COMPONENT debian_measure
        EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME paceline)
set(CPACK_PACKAGE_VENDOR "The Paceline authors")
set(CPACK_PACKAGE_CONTACT "The Paceline authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "predicts how data-parallel training scales")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENTS_ALL program debian)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME paceline)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "paceline-measure, python3")
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "Simulates GPUs, links, collectives and stragglers of distributed training
from a scenario in JSON: step time, where it goes, and what would change it.")
set(CPACK_DEBIAN_MEASURE_PACKAGE_NAME paceline-measure)
set(CPACK_DEBIAN_MEASURE_PACKAGE_RECOMMENDS openmpi-bin)
set(CPACK_DEBIAN_MEASURE_DESCRIPTION "Measures collectives and kernels on this machine, for `paceline calibrate fit`.")
if(TARGET paceline-measure-mpi)
  list(APPEND CPACK_COMPONENTS_ALL measure debian_measure)
endif()
include(CPack)
cpack_add_component_group(program)
cpack_add_component(program GROUP program)
cpack_add_component(debian GROUP program)
cpack_add_component_group(measure)
cpack_add_component(measure GROUP measure)
cpack_add_component(debian_measure GROUP measure)
