// Control flow on the device: Newton's iteration for square roots, which stops when its own values
// say so.
#include <iostream>

#include <keel/keel.h>

int main() {
  keel::Graph g;
  const auto a = g.input("a", keel::f32, {4});
  const auto result = keel::while_loop(
      {a}, [&](const keel::Values& v) { return greater(max(abs(v[0] * v[0] - a)), 1e-4f); },
      [&](const keel::Values& v) { return keel::Values{(v[0] + a / v[0]) * 0.5f}; });

  keel::Session session(g, keel::device("npu"));
  const auto out = session.run({result[0]}, {{a, keel::Tensor::of<float>({4}, {1, 2, 3, 4})}});
  std::cout << "square roots of 1 2 3 4: " << to_string(out[0]) << "\n";
  return 0;
}
