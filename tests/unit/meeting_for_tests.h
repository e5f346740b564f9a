// What tests need whose ranks meet at an address, without a launcher.
#ifndef KEEL_TESTS_UNIT_MEETING_FOR_TESTS_H
#define KEEL_TESTS_UNIT_MEETING_FOR_TESTS_H

#include <chrono>
#include <cstdint>
#include <unistd.h>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/group/channel.h"
#include "keel/core/group/gloo_engine.h"

#include "support/error_of.h"

namespace keel::testing {

// Says so where the test cannot run.
inline bool without_gloo() {
  if (!has_gloo()) MESSAGE("keel test skipped: this build has no Gloo");
  return !has_gloo();
}

inline Deadline after(int milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

// A port outside of those that the system gives to connections, so that it stays free.
inline uint16_t free_port() {
  const int first = static_cast<int>(getpid()) * 37 % 15000;
  for (int i = 0; i < 15000; ++i) {
    const auto port = static_cast<uint16_t>(10000 + (first + i) % 15000);
    if (keel_test::error_of([&] { listen_at("127.0.0.1", port); }).empty()) return port;
  }
  throw Error("no port is free");
}

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_MEETING_FOR_TESTS_H
