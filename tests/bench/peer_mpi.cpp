// Sums of floats over the ranks of MPI, in place, for the sizes of `keel bench ranks`: what that
// suite's table stands beside. Needs no Keel.
//
// Usage: mpirun -n 2 peer_mpi [SECONDS]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mpi.h>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// The gradients of softmax and of mlp.
constexpr int kElements[] = {7850, 669706};
constexpr int64_t kTurnsToWarmUp = 5;

// Sorted times of single turns, in us.
template <class Work>
std::vector<double> measure(int64_t turns, const Work& work) {
  std::vector<double> times;
  for (int64_t i = -kTurnsToWarmUp; i < turns; ++i) {
    const auto start = Clock::now();
    work();
    const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
    if (i >= 0) times.push_back(taken.count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

// All ranks have to sum equally often, so rank 0 says how often.
int64_t choose_turns(double seconds, double us) {
  int64_t turns = std::clamp<int64_t>(static_cast<int64_t>(seconds * 1e6 / us), 10, 100000);
  MPI_Bcast(&turns, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return turns;
}

void measure_size(int elements, double seconds, bool prints) {
  std::vector<float> values(static_cast<size_t>(elements)), copy(values.size());
  const auto sum = [&] {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  const int64_t turns = choose_turns(seconds, measure(1, sum)[0]);
  const std::vector<double> sums = measure(turns, sum);
  const std::vector<double> copies = measure(
      turns, [&] { std::memcpy(copy.data(), values.data(), values.size() * sizeof(float)); });
  if (!prints) return;
  const size_t middle = sums.size() / 2;
  std::printf("  %10zu %8zu %14.1f %12.1f %11.1f %9.1f\n", values.size() * sizeof(float),
              sums.size(), sums[middle], sums[sums.size() * 95 / 100], copies[middle],
              sums[middle] / std::max(copies[middle], 1e-3));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.3;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) {
    std::printf("all-reduce of f32 among %d ranks of MPI, wall time in us\n", ranks);
    std::printf("       bytes    turns     all-reduce          p95      memcpy   memcpys\n");
  }
  for (const int elements : kElements) measure_size(elements, seconds, rank == 0);
  MPI_Finalize();
  return 0;
}
