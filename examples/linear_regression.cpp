// Fits a line to points in memory: a model, an optimizer, a data set and a sunk loop, in one
// screen.
#include <iostream>

#include <keel/keel.h>

int main() {
  // y = 3 x + 1 with a little noise, 1000 points.
  keel::Tensor xs(keel::f32, {1000, 1});
  keel::Tensor ys(keel::f32, {1000, 1});
  for (int64_t i = 0; i < 1000; ++i) {
    const double x = static_cast<double>(i) / 500 - 1;
    xs.set(i, x);
    ys.set(i, 3 * x + 1 + 0.01 * keel::normal(/*key=*/1, static_cast<uint64_t>(i)));
  }

  keel::Graph g;
  const auto x = g.input("x", keel::f32, {-1, 1});
  const auto y = g.input("y", keel::f32, {-1, 1});
  const auto slope = g.state("slope", keel::zeros({1, 1}));
  const auto offset = g.state("offset", keel::zeros({1}));
  const auto loss = keel::mean_squared_error(matmul(x, slope) + offset, y);
  const auto train = keel::sgd(0.1).minimize(loss);

  keel::Session session(g, keel::device("npu"));
  const auto points =
      keel::Dataset::from_tensors({{"x", xs}, {"y", ys}}).shuffle(0).batch(50).repeat();
  auto loop = session.sink(
      {.update = train, .fetches = {loss}, .source = keel::feed(points, session.spec({x, y}))});
  const auto report = loop.run(400, {.on_step = [](int64_t step, std::span<const double> values) {
                                 if (step % 100 == 0)
                                   std::cout << "step " << step << "  loss " << values[0] << "\n";
                               }});
  std::cout << "after " << report.steps << " steps: y = " << session.read(slope).item<float>()
            << " x + " << session.read(offset).item<float>() << "\n";
  return 0;
}
