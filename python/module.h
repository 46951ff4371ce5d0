// The extension module paceline._core: text in, text out. Its functions are the command line's, without files
// where a text will do; each is called without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

namespace paceline::python {

// One topic each.
void add_run(nanobind::module_&);
void add_collective(nanobind::module_&);
void add_calibrate(nanobind::module_&);
void add_studies(nanobind::module_&);

}  // namespace paceline::python
