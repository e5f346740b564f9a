#include <Eigen/Core>

#include "bench/peers.h"

namespace keel_bench {

std::vector<Contestant> eigen_products(const Product& p, const float* a, const float* b, float* c) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto m = static_cast<Eigen::Index>(p.m), k = static_cast<Eigen::Index>(p.k),
             n = static_cast<Eigen::Index>(p.n);
  Eigen::setNbThreads(1);
  return {{"Eigen", [=] {
             const Eigen::Map<const Matrix> left(a, p.transpose_a ? k : m, p.transpose_a ? m : k);
             const Eigen::Map<const Matrix> right(b, p.transpose_b ? n : k, p.transpose_b ? k : n);
             Eigen::Map<Matrix> result(c, m, n);
             if (p.transpose_a)
               result.noalias() = left.transpose() * right;
             else if (p.transpose_b)
               result.noalias() = left * right.transpose();
             else
               result.noalias() = left * right;
           }}};
}

}  // namespace keel_bench
