// `keel inspect`: figures of elements at the edges of what doubles hold.
#include <string>

#include <doctest/doctest.h>
#include <keel/core/tensor/tensor.h>
#include <keel/graph/runtime/safetensors.h>

#include "cli/tool.h"
#include "support/temp_folder.h"

TEST_SUITE_BEGIN("cli");

// Their sum is infinite, and whole numbers beyond 2^53 were rounded to doubles.
TEST_CASE("inspect: means of large numbers and extremes of whole ones are exact") {
  using namespace keel_test;
  constexpr int64_t kBeyond = (int64_t{1} << 53) + 1;
  const TempFolder files;
  keel::write_safetensors(files.file("s"),
                          {{"large", keel::Tensor::of<double>({2}, {1.5e308, 1.5e308})},
                           {"whole", keel::Tensor::of<int64_t>({3}, {kBeyond, 5, -kBeyond - 2})}});
  done({"inspect", files.file("s"), "--json", files.file("j")});
  const nlohmann::json tensors = read_json(files.file("j")).at("tensors");
  CHECK(tensors[0].at("mean") == 1.5e308);
  CHECK(tensors[1].at("max").get<int64_t>() == kBeyond);
  CHECK(tensors[1].at("min").get<int64_t>() == -kBeyond - 2);
  CHECK(tensors[1].at("max").is_number_integer());
}

TEST_SUITE_END();
