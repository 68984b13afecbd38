// The program `scalekeeper`.
#include <cerrno>
#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "tools/command.h"

int main(int argc, char** argv) {
  // A reader that has seen enough (`| head`) ends the output, not the program.
  std::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  errno = 0;
  const int exit_code = scalekeeper::RunScalekeeper(args, std::cout, std::cerr);
  std::cout.flush();
  if (std::cout.fail() && errno != EPIPE) {
    std::cerr << "scalekeeper: standard output cannot be written\n";
    return scalekeeper::kExitTrouble;
  }
  return exit_code;
}
