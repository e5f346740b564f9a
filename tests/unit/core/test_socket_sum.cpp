// Sums over sockets between ranks: their bits, votes and places, whatever the sockets hold. In the
// suite "loop", so that ThreadSanitizer sees them.
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/socket.h>

#include "keel/core/group/channel.h"
#include "keel/core/group/socket_sum.h"

#include "ranks_for_tests.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("loop");

namespace {

using namespace keel;
using keel::testing::kPatience;
using keel::testing::no_errors;
using keel::testing::on_ranks;
using keel_test::contains;

// A socket between each two of the ranks.
class Mesh {
 public:
  explicit Mesh(int size, int buffer_bytes = 0) : ends_(static_cast<size_t>(size)) {
    for (auto& row : ends_) row.resize(ends_.size());
    for (size_t i = 0; i < ends_.size(); ++i) {
      for (size_t k = i + 1; k < ends_.size(); ++k) connect(ends_[i][k], ends_[k][i], buffer_bytes);
    }
  }
  std::vector<int> of(int rank) const {
    std::vector<int> numbers;
    for (const Descriptor& end : ends_[static_cast<size_t>(rank)]) numbers.push_back(end.number());
    return numbers;
  }
  void close(int rank) { ends_[static_cast<size_t>(rank)].clear(); }

 private:
  static void connect(Descriptor& one, Descriptor& other, int buffer_bytes) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    one = Descriptor(pair[0]);
    other = Descriptor(pair[1]);
    if (buffer_bytes == 0) return;
    for (const int end : pair)
      setsockopt(end, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  }

  std::vector<std::vector<Descriptor>> ends_;
};

// Whole numbers, whose sums are exact in any order.
float whole_number(int rank, size_t element, int turn) {
  return static_cast<float>(
             (element * 31 + static_cast<size_t>(rank) * 7 + static_cast<size_t>(turn) * 5) %
             1021) *
         (rank % 2 == 0 ? 1.0f : -2.0f);
}

// Three sums in a row by each rank; throws where an element or a vote is wrong.
void sum_in_turn(const Mesh& mesh, int rank, int size, size_t count) {
  SocketSum sums(rank, mesh.of(rank), kPatience);
  for (int turn = 0; turn < 3; ++turn) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = whole_number(rank, i, turn);
    const int voter = turn % size;
    const auto vote = static_cast<uint8_t>(rank == voter ? 4 : rank % 3);
    if (sums.run({turn + 1, 0}, values.data(), count, vote) != 4) throw Error("wrong vote");
    for (size_t i = 0; i < count; ++i) {
      float expected = 0;
      for (int other = 0; other < size; ++other) expected += whole_number(other, i, turn);
      if (values[i] != expected) throw Error("wrong sum of element " + std::to_string(i));
    }
  }
}

}  // namespace

TEST_CASE("socket sum: any number of ranks and elements") {
  for (const int size : {1, 2, 3, 4, 5, 7, 8}) {
    const Mesh mesh(size);
    for (const size_t count : {0u, 1u, 3u, 8192u, 8193u, 65536u, 65537u, 200001u}) {
      CAPTURE(size);
      CAPTURE(count);
      CHECK(on_ranks(size, [&](int rank) { sum_in_turn(mesh, rank, size, count); }) ==
            no_errors(size));
    }
  }
}

TEST_CASE("socket sum: messages larger than the buffers of both ends do not block them") {
  for (const int size : {2, 3, 4}) {
    const Mesh mesh(size, /*buffer_bytes=*/1);  // the system makes it its least
    CAPTURE(size);
    CHECK(on_ranks(size, [&](int rank) { sum_in_turn(mesh, rank, size, 300000); }) ==
          no_errors(size));
  }
}

TEST_CASE(
    "socket sum: the bits are those of a balanced tree and equal where there are no numbers") {
  constexpr size_t kCounts[] = {1000, 60000};  // that travel whole, and by halves
  constexpr int kSize = 4;
  for (const size_t count : kCounts) {
    const Mesh mesh(kSize);
    const auto value = [](int rank, size_t i) {
      if (i % 5 == 0) {  // not a number, by another sign and payload on each rank
        const uint32_t bits =
            (rank % 2 == 0 ? 0x7fc00000u : 0xffc00000u) + 16u * static_cast<uint32_t>(rank);
        float made = 0;
        std::memcpy(&made, &bits, sizeof made);
        return made;
      }
      return std::ldexp(1.0f + static_cast<float>(i % 97) * 0.01f,
                        (rank * 13 + static_cast<int>(i % 7)) % 24);
    };
    std::vector<std::vector<float>> sums(kSize);
    CHECK(on_ranks(kSize, [&](int rank) {
            std::vector<float>& own = sums[static_cast<size_t>(rank)];
            for (size_t i = 0; i < count; ++i) own.push_back(value(rank, i));
            SocketSum(rank, mesh.of(rank), kPatience).run({1, 0}, own.data(), count, 0);
          }) == no_errors(kSize));
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      const float lower = value(0, i) + value(1, i), upper = value(2, i) + value(3, i);
      const float expected = lower + upper;
      wrong += i % 5 == 0 ? !std::isnan(sums[0][i]) : sums[0][i] != expected;
    }
    CHECK(wrong == 0);
    for (size_t rank = 1; rank < kSize; ++rank)
      CHECK(std::memcmp(sums[0].data(), sums[rank].data(), count * sizeof(float)) == 0);
  }
}

TEST_CASE("socket sum: ranks at different sums find out before they use a value") {
  const SumPlace places[][2] = {
      {{.collective = 7, .reduction = 1}, {.collective = 8, .reduction = 1}},
      {{.collective = 7, .reduction = 1}, {.collective = 7, .reduction = 2}},
  };
  for (const auto& place : places) {
    for (const size_t other_count : {0u, 10u, 100000u}) {
      CAPTURE(other_count);
      const Mesh mesh(2);
      const auto errors = on_ranks(2, [&](int rank) {
        std::vector<float> values(rank == 0 ? 1000 : other_count, 1.0f);
        SocketSum sums(rank, mesh.of(rank), kPatience);
        try {
          sums.run(place[rank], values.data(), values.size(), 0);
        } catch (const SumsDiffer& difference) {
          if (difference.rank() != 1 - rank || difference.place() != place[1 - rank])
            throw Error("another place");
          for (const float value : values) {
            if (value != 1.0f) throw Error("a value was used");
          }
          return;
        }
        throw Error("nothing was found");
      });
      CHECK(errors == no_errors(2));
    }
  }
}

TEST_CASE("socket sum: a rank that is gone or silent is named") {
  std::vector<float> values(100000, 1.0f);
  {
    Mesh mesh(2);
    mesh.close(1);
    const std::string gone = keel_test::error_of([&] {
      SocketSum(0, mesh.of(0), kPatience).run({1, 0}, values.data(), values.size(), 0);
    });
    CHECK_MESSAGE(contains(gone, "rank 1 "), gone);
  }
  const Mesh mesh(2);
  const std::string silent = keel_test::error_of([&] {
    SocketSum(0, mesh.of(0), std::chrono::milliseconds(50)).run({1, 0}, values.data(), 10, 0);
  });
  CHECK_MESSAGE(contains(silent, "rank 1 sends nothing for 50 ms"), silent);
}

TEST_SUITE_END();
