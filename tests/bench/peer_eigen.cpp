#include <Eigen/Core>

#include "bench/peers.h"

namespace keel_bench {

std::vector<Contestant> eigen_products(const Product& p, const float* a, const float* b, float* c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto m = static_cast<Eigen::Index>(p.m), k = static_cast<Eigen::Index>(p.k),
             n = static_cast<Eigen::Index>(p.n);
  Eigen::setNbThreads(1);
  return {{"Eigen", [=, transpose = p.transpose_a] {
             const Eigen::Map<const Matrix> left(a, transpose ? k : m, transpose ? m : k);
             const Eigen::Map<const Matrix> right(b, k, n);
             Eigen::Map<Matrix> result(c, m, n);
             if (transpose)
               result.noalias() = left.transpose() * right;
             else
               result.noalias() = left * right;
           }}};
}

}  // namespace keel_bench
