// The standard input, output and error of a program.
#pragma once

namespace paceline {

// Opens those that were closed when the program started, so that no file that it opens later gets their number
// and is written into. What is read or written there fails as before. At the start of a program.
void open_standard_streams();

}  // namespace paceline
