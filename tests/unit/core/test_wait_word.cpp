// Waiting on a word. In the suite "queue", so that ThreadSanitizer sees it.
#include <chrono>
#include <initializer_list>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/wait_word.h"

using keel::WaitWord;
using namespace std::chrono_literals;

TEST_SUITE_BEGIN("queue");

TEST_CASE("a word that differs already is not waited for") {
  WaitWord word(3);
  CHECK(word.load() == 3);
  CHECK(word.wait_while(4));
  CHECK(word.wait_while(4, 0ns));
  word.store(4);
  CHECK(word.load() == 4);
  CHECK(word.bump() == 5);
  CHECK(word.wait_while(4, 1h));
}

TEST_CASE("a wait ends with its timeout and not before") {
  const WaitWord word(1);
  for (const auto timeout : {0ns, 1ns, 100000ns, 20000000ns}) {
    for (const auto spin : {0ns, 2000ns, 1000000000ns}) {
      const auto start = std::chrono::steady_clock::now();
      CHECK_FALSE(word.wait_while(1, timeout, spin));
      CHECK(std::chrono::steady_clock::now() - start >= timeout);
    }
  }
  CHECK_FALSE(word.wait_while(1, -5s));
}

TEST_CASE("a sleeper is woken and sees what was written before") {
  for (const auto spin : {0ns, 2000ns, 1000000000ns}) {
    WaitWord word;
    int data = 0;
    std::thread producer([&] {
      std::this_thread::sleep_for(5ms);
      data = 42;
      word.store(1);
    });
    CHECK(word.wait_while(0, WaitWord::kForever, spin));
    CHECK(data == 42);
    producer.join();
  }
}

TEST_CASE("all sleepers are woken by one bump") {
  WaitWord word;
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) sleepers.emplace_back([&] { word.wait_while(0); });
  std::this_thread::sleep_for(5ms);
  word.bump();
  for (auto& sleeper : sleepers) sleeper.join();
  CHECK(word.load() == 1);
}

TEST_CASE("two threads that answer each other lose no wake-up") {
  for (const auto spin : {0ns, 2000ns}) {
    WaitWord ping;
    WaitWord pong;
    const uint32_t rounds = 3000;
    uint32_t shared = 0;  // plain: the words order its accesses
    std::thread other([&] {
      for (uint32_t i = 0; i < rounds; ++i) {
        ping.wait_while(i, WaitWord::kForever, spin);
        ++shared;
        pong.bump();
      }
    });
    for (uint32_t i = 0; i < rounds; ++i) {
      ++shared;
      ping.bump();
      pong.wait_while(i, WaitWord::kForever, spin);
    }
    other.join();
    CHECK(shared == 2 * rounds);
  }
}

TEST_CASE("a word wraps around") {
  WaitWord word(0xffffffff);
  CHECK(word.bump() == 0);
  CHECK(word.wait_while(0xffffffff));
}

TEST_SUITE_END();
