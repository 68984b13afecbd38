// A TCP port of this machine that was free a moment ago. Test only.
#ifndef SCALEKEEPER_TESTS_TESTING_FREE_PORT_H_
#define SCALEKEEPER_TESTS_TESTING_FREE_PORT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace scalekeeper {

inline int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length),
            0);
  ::close(fd);
  return ntohs(address.sin_port);
}

}  // namespace scalekeeper

#endif  // SCALEKEEPER_TESTS_TESTING_FREE_PORT_H_
