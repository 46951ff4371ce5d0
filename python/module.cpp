#include "python/module.h"

#include <nanobind/stl/string.h>

#include <exception>

#include "core/error.h"
#include "core/version.h"
#include "scenarios/files.h"

namespace nb = nanobind;

namespace paceline::python {
namespace {

// paceline.errors.InputError, with what the command line would print but for the names of options.
void raise_input_error(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InputError& error) {
    const nb::object type = nb::module_::import_("paceline.errors").attr("InputError");
    const nb::object value = type.attr("of_core")(error.message(), error.place(), error.file());
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace
}  // namespace paceline::python

NB_MODULE(_core, module) {
  using namespace paceline;
  module.doc() =
      "Paceline's C++ core: JSON text in, JSON text out. Every function releases the interpreter's lock.";
  nb::register_exception_translator(python::raise_input_error);
  module.attr("VERSION") = kVersion;
  module.attr("MODEL_VERSION") = kModelVersion;
  module.def("read_file", &read_file, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>(),
             "The text of a file of at most 64 MiB.");
  python::add_run(module);
  python::add_collective(module);
  python::add_calibrate(module);
  python::add_studies(module);
}
