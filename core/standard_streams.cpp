#include "core/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace paceline {

void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) {
      // The lowest number that is free: this one. The other way round: what isn't there must not seem to be.
      static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
  }
}

}  // namespace paceline
