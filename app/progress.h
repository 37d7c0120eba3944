#pragma once
// How far long work is: one line on standard error that overwrites itself, only on a terminal.

#include <string>

namespace orrery::app {

class Progress {
 public:
  Progress();
  ~Progress();  ///< Clears the line.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const std::string& line);

 private:
  bool on_terminal_;
  bool shown_ = false;
};

}  // namespace orrery::app
