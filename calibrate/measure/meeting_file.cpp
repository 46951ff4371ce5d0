#include "calibrate/measure/meeting_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace paceline::measure {
namespace {

std::string own_folder() {
  std::string folder = std::filesystem::temp_directory_path() / ("paceline-" + std::to_string(geteuid()));
  mkdir(folder.c_str(), S_IRWXU);
  struct stat is{};
  if (lstat(folder.c_str(), &is) != 0 || !S_ISDIR(is.st_mode) || is.st_uid != geteuid() ||
      (is.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw std::runtime_error("expected " + folder +
                             " to be a folder that only this user can enter; set "
                             "TMPDIR to another place, or PACELINE_SECRET");
  }
  return folder;
}

}  // namespace

MeetingFile::MeetingFile(const std::string& job) : path_(own_folder() + "/" + job) {}

MeetingFile::~MeetingFile() {
  if (written_) {
    unlink(path_.c_str());
  }
}

void MeetingFile::write(const std::string& text) {
  const std::string unfinished = path_ + "." + std::to_string(getpid());
  const int file =
      open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  const bool whole =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) {
    close(file);
  }
  if (!whole || std::rename(unfinished.c_str(), path_.c_str()) != 0) {
    throw std::runtime_error(path_ + " cannot be written: " + std::strerror(errno));
  }
  written_ = true;
}

std::optional<std::string> MeetingFile::read() const {
  std::ifstream in(path_);
  if (!in) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace paceline::measure
