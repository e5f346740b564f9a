// Kernels chosen by rate: the names of choices, what rates choose, and the files that keep rates,
// whatever became of them.
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/cube/kernel_choice.h"
#include "keel/backends/common/cube/rate_file.h"
#include "keel/backends/common/vector/product_kernels.h"
#include "keel/core/base/error.h"
#include "keel/core/base/half.h"

#include "support/error_of.h"
#include "support/temp_folder.h"
#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using keel::vector::HostIsa;
using keel_test::contains;
using keel_test::error_of;
using keel_test::TempFolder;

RateKey some_key() { return {{"AuthenticAMD", 25, 17, 1}, HostIsa::kAvx512Bf16, "0.1.0"}; }

// Rates of all cells of the key; `widening` times that of pairs where operands are bf16.
KernelRates some_rates(double widening = 0.5) {
  KernelRates rates = rate_cells(HostIsa::kAvx512Bf16);
  rates.turns = 20;
  for (KernelRate& rate : rates.cells) {
    rate.gflops = 100;
    if (rate.dtype == bf16 && rate.kernel == ProductKernel::kWidening) rate.gflops *= widening;
  }
  return rates;
}

bool same_rates(const KernelRates& a, const KernelRates& b) {
  bool same = a.turns == b.turns && a.cells.size() == b.cells.size();
  for (size_t i = 0; same && i < a.cells.size(); ++i) {
    const KernelRate &x = a.cells[i], &y = b.cells[i];
    same = x.dtype == y.dtype && x.shape == y.shape && x.kernel == y.kernel && x.gflops == y.gflops;
  }
  return same;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool has(HostIsa isa) {
  for (const HostIsa available : vector::available_host_isas()) {
    if (available == isa) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("kernel rates: a host ISA's name lists the kernels that are not its own") {
  const HostIsa pairs = HostIsa::kAvx512Bf16;
  ProductKernels kernels = vector::own_product_kernels(pairs);
  CHECK(name_of(pairs, kernels) == "avx512_bf16");
  kernels.of(ShapeClass::kRows) = ProductKernel::kWidening;
  CHECK(name_of(pairs, kernels) == "avx512_bf16:rows=widening");
  kernels.of(ShapeClass::kSmall) = ProductKernel::kWidening;
  const std::string list = "rows=widening,small=widening";
  CHECK(name_of(pairs, kernels) == "avx512_bf16:" + list);
  CHECK((vector::parse_product_kernels(pairs, list, "it") == kernels));
  CHECK((vector::parse_product_kernels(pairs, "small=widening,rows=widening,square=pairs", "it") ==
         kernels));
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "CLASS=KERNEL"},
      {"rows", "CLASS=KERNEL"},
      {"rows=widening,", "CLASS=KERNEL"},
      {"rows=", "one of"},
      {"row=widening", "did you mean 'rows'"},
      {"rows=tiles", "it: expected"},  // this set has none
      {"rows=f32", "it: expected"},
      {"rows=pairs,rows=pairs", "'rows' twice"},
  };
  for (const auto& each : wrong) {
    CAPTURE(each.first);
    const std::string error =
        error_of([&] { vector::parse_product_kernels(pairs, each.first, "it"); });
    CHECK_MESSAGE(contains(error, each.second), error);
  }
}

TEST_CASE("kernel rates: KEEL_ISA takes the names and a wrong one changes nothing") {
  const std::string before = vector::name_of(vector::host_isa());
  for (const char* wrong : {":rows=pairs", "scalar:", "scalar:rows=pairs", "mmx:rows=pairs"}) {
    CAPTURE(std::string(wrong));
    CHECK_THROWS_AS(vector::select_host_isa(wrong), Error);
    CHECK(vector::name_of(vector::host_isa()) == before);
  }
  vector::select_host_isa("scalar:rows=widening");
  CHECK(host_isa_name() == "scalar");
  vector::select_host_isa(before.c_str());
}

TEST_CASE("kernel rates: only a clear margin chooses another kernel than the set's own") {
  const HostIsa pairs = HostIsa::kAvx512Bf16;
  const auto own = vector::own_product_kernels(pairs);
  CHECK((choose_product_kernels(pairs, some_rates(0.5)) == own));
  CHECK((choose_product_kernels(pairs, some_rates(1.0)) == own));
  CHECK((choose_product_kernels(pairs, some_rates(1.29)) == own));
  CHECK(name_of(pairs, choose_product_kernels(pairs, some_rates(1.31))) ==
        "avx512_bf16:square=widening,rows=widening,columns=widening,vector=widening,"
        "small=widening");
  KernelRates rates = some_rates();
  for (KernelRate& rate : rates.cells) {
    if (rate.shape == ShapeClass::kVector && rate.kernel == ProductKernel::kWidening)
      rate.gflops = 1000;
  }
  CHECK(name_of(pairs, choose_product_kernels(pairs, rates)) == "avx512_bf16:vector=widening");
  CHECK((choose_product_kernels(pairs, {}) == own));
  rates.turns = kLeastTurns - 1;
  CHECK((choose_product_kernels(pairs, rates) == own));

  // A processor at which the others are clearly slower or faster stays with its choice however
  // much noise, which only takes away from a rate, there is below the margin.
  vector_test::Numbers numbers(7);
  for (const double widening : {0.5, 0.7, 0.99, 2.0}) {
    for (int run = 0; run < 200; ++run) {
      KernelRates noisy = some_rates(widening);
      for (KernelRate& rate : noisy.cells)
        rate.gflops *= 1 - 0.11 * (1 + static_cast<double>(numbers.uniform()));
      CHECK((choose_product_kernels(pairs, noisy) ==
             choose_product_kernels(pairs, some_rates(widening))));
    }
  }
}

TEST_CASE("kernel rates: tiles give way to pairs and pairs to widening only by a margin again") {
  const HostIsa amx = HostIsa::kAmx;
  const auto chosen = [&](double tiles, double pairs, double widening) {
    KernelRates rates;
    rates.turns = 20;
    rates.cells = {{bf16, ShapeClass::kRows, ProductKernel::kTiles, tiles},
                   {bf16, ShapeClass::kRows, ProductKernel::kPairs, pairs},
                   {bf16, ShapeClass::kRows, ProductKernel::kWidening, widening}};
    return choose_product_kernels(amx, rates).of(ShapeClass::kRows);
  };
  CHECK(chosen(100, 120, 120) == ProductKernel::kTiles);
  CHECK(chosen(100, 90, 140) == ProductKernel::kWidening);
  if (!vector::has_bf16_dot_products()) return;
  CHECK(chosen(100, 200, 90) == ProductKernel::kPairs);
  CHECK(chosen(100, 200, 220) == ProductKernel::kPairs);
  CHECK(chosen(100, 200, 280) == ProductKernel::kWidening);
}

TEST_CASE("kernel rates: the class of a product") {
  const auto class_of = [](size_t m, size_t k, size_t n, bool transpose_a = false) {
    CubeProblem p;
    p.m = m;
    p.k = k;
    p.n = n;
    p.transpose_a = transpose_a;
    return std::string(name_of(cube_shape_class(p)));
  };
  CHECK(class_of(100, 784, 10) == "rows");
  CHECK(class_of(784, 100, 10, true) == "columns");
  CHECK(class_of(1, 784, 16) == "rows");
  CHECK(class_of(1, 784, 512) == "vector");
  CHECK(class_of(16, 784, 17) == "vector");
  CHECK(class_of(64, 64, 64) == "small");
  CHECK(class_of(100000, 64, 64) == "small");
  CHECK(class_of(64, 65, 64) == "square");
  CHECK(class_of(17, size_t{1} << 63, 17) == "square");
  CHECK(class_of(512, 512, 512) == "square");
}

TEST_CASE("kernel rates: a product is computed by the kernel of its class") {
  if (!has(HostIsa::kAvx512Bf16)) return;
  const std::string before = vector::name_of(vector::host_isa());
  const auto sums = [](const char* isa, size_t n) {
    vector::select_host_isa(isa);
    CubeProblem p;
    p.m = 40;
    p.k = 300;
    p.n = n;
    p.a = p.b = bf16;
    vector_test::Numbers numbers(3);
    std::vector<BFloat16> a, b;
    for (size_t i = 0; i < p.m * p.k; ++i) a.emplace_back(numbers.uniform());
    for (size_t i = 0; i < p.k * p.n; ++i) b.emplace_back(numbers.uniform());
    const CubePlan plan = plan_cube(p);
    std::vector<float> c(p.m * p.n), scratch(cube_scratch_bytes(plan, p.m, p.n) / 4 + 32);
    auto at = reinterpret_cast<uintptr_t>(scratch.data());
    CubeArgs args;
    args.a = a.data();
    args.a_stride = p.k;
    args.b = b.data();
    args.b_stride = p.n;
    args.c = c.data();
    args.c_stride = p.n;
    cube_block(plan, args, {0, p.m, 0, p.n}, reinterpret_cast<void*>((at + 63) / 64 * 64));
    return c;
  };
  const auto pairs = sums("avx512_bf16", 10), widened = sums("avx512", 10);
  REQUIRE_FALSE(vector_test::same_bits(pairs, widened));
  const char* mixed = "avx512_bf16:rows=widening";
  CHECK(vector_test::same_bits(sums(mixed, 10), widened));
  CHECK(host_isa_name() == mixed);
  CHECK(vector_test::same_bits(sums(mixed, 100), sums("avx512_bf16", 100)));
  vector::select_host_isa(before.c_str());
}

TEST_CASE("kernel rates: files are read as they were written") {
  const RateKey key = some_key();
  CHECK(rate_file_name(key) == "rates-AuthenticAMD-25-17-1-avx512_bf16-0.1.0.json");
  KernelRates rates = some_rates();
  rates.cells[3].gflops = 123.456;
  const std::string text = write_rates(key, rates);
  CHECK(same_rates(read_rates(key, text, "it"), rates));

  const auto changed = [&](auto change) {
    nlohmann::json file = nlohmann::json::parse(text);
    change(file);
    return error_of([&] { read_rates(key, file.dump(), "it"); });
  };
  const auto of_bf16 = nlohmann::json::json_pointer("/gflops/bf16/square/pairs");
  CHECK(changed([](auto&) {}).empty());
  CHECK(contains(changed([](auto& f) { f["processor"]["stepping"] = 2; }), "rates of Auth"));
  CHECK(contains(changed([](auto& f) { f["processor"]["vendor"] = "GenuineIntel"; }), "Intel"));
  CHECK(contains(changed([](auto& f) { f["keel_version"] = "0.0.9"; }), "those of"));
  CHECK(contains(changed([](auto& f) { f["isa"] = "amx"; }), "those of"));
  CHECK(contains(changed([](auto& f) { f["format"] = 3; }), "format"));
  CHECK(contains(changed([](auto& f) { f["more"] = 2; }), "more"));
  CHECK(contains(changed([](auto& f) { f["turns"] = 0; }), "turns"));
  CHECK(contains(changed([](auto& f) { f.erase("gflops"); }), "gflops"));
  CHECK(contains(changed([](auto& f) { f["gflops"] = 1; }), "gflops"));
  CHECK(contains(changed([](auto& f) { f["gflops"]["bf16"].erase("rows"); }), "rows"));
  CHECK(contains(changed([&](auto& f) { f[of_bf16] = 0; }), "a number above 0"));
  CHECK(contains(changed([&](auto& f) { f[of_bf16] = -3; }), "pairs"));
  CHECK(contains(changed([&](auto& f) { f[of_bf16] = 1e300; }), "pairs"));
  CHECK(contains(changed([&](auto& f) { f[of_bf16] = "fast"; }), "pairs"));
  CHECK(contains(changed([](auto& f) { f["gflops"]["bf16"]["square"]["tiles"] = 1; }), "rates"));
  for (size_t length = 0; length + 2 < text.size(); length += 7) {
    CHECK_FALSE(error_of([&] { read_rates(key, text.substr(0, length), "it"); }).empty());
  }
}

TEST_CASE("kernel rates: they are measured once and then read") {
  const TempFolder folder;
  const std::string cache = folder.path() + "/not/yet/there";
  int measured = 0;
  const auto measure = [&] {
    ++measured;
    return some_rates();
  };
  const KeptRates first = keep_rates(some_key(), cache, measure);
  CHECK(first.measured);
  CHECK(first.path == cache + "/" + rate_file_name(some_key()));
  CHECK(first.problem.empty());
  const KeptRates second = keep_rates(some_key(), cache, measure);
  CHECK(measured == 1);
  CHECK_FALSE(second.measured);
  CHECK(second.path == first.path);
  CHECK(same_rates(first.rates, second.rates));

  // Another processor's are no answer, not even under this one's name.
  RateKey other = some_key();
  other.processor.model = 1;
  CHECK(keep_rates(other, cache, measure).measured);
  CHECK(measured == 2);
  std::filesystem::copy_file(first.path, cache + "/" + rate_file_name(other),
                             std::filesystem::copy_options::overwrite_existing);
  const KeptRates third = keep_rates(other, cache, measure);
  CHECK(third.measured);
  CHECK(contains(third.problem, "rates of AuthenticAMD-25-1-1-avx512_bf16-0.1.0"));
  CHECK_FALSE(third.path.empty());
  CHECK_FALSE(keep_rates(other, cache, measure).measured);  // it was replaced
  CHECK(measured == 3);
}

TEST_CASE("kernel rates: broken files are told of and replaced") {
  const TempFolder folder;
  const std::string path = folder.path() + "/" + rate_file_name(some_key());
  const std::string whole = write_rates(some_key(), some_rates());
  for (const std::string& text :
       {std::string(), std::string("{"), whole.substr(0, whole.size() / 2), std::string(5000, '['),
        std::string(100000, ' '), std::string("\0\xff\n", 3)}) {
    CAPTURE(text.substr(0, 10));
    write_text(path, text);
    const KeptRates kept = keep_rates(some_key(), folder.path(), [] { return some_rates(0.7); });
    CHECK(kept.measured);
    CHECK(contains(kept.problem, path));
    CHECK(kept.path == path);
    CHECK(same_rates(read_rates(some_key(), read_text(path), path), some_rates(0.7)));
  }
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  const KeptRates kept = keep_rates(some_key(), folder.path(), [] { return some_rates(); });
  CHECK(kept.measured);
  CHECK(kept.path.empty());
  CHECK_FALSE(kept.problem.empty());
}

TEST_CASE("kernel rates: without a folder that can be written they are measured each time") {
  const TempFolder folder;
  write_text(folder.path() + "/file", "");
  for (const std::optional<std::string>& nowhere :
       {std::optional<std::string>(), std::optional(folder.path() + "/file"),
        std::optional(folder.path() + "/file/more"), std::optional<std::string>("/proc/keel")}) {
    const KeptRates kept = keep_rates(some_key(), nowhere, [] { return some_rates(); });
    CHECK(kept.measured);
    CHECK(kept.path.empty());
    CHECK_FALSE(kept.problem.empty());
    CHECK(same_rates(kept.rates, some_rates()));
  }
}

TEST_CASE("kernel rates: of several that start at once one measures") {
  const TempFolder folder;
  std::atomic<int> measured{0}, ready{0};
  std::vector<KeptRates> kept(4);
  std::vector<std::thread> starters;
  for (size_t i = 0; i < kept.size(); ++i) {
    starters.emplace_back([&, i] {
      ++ready;
      while (ready < 4) std::this_thread::yield();
      kept[i] = keep_rates(some_key(), folder.path(), [&, i] {
        ++measured;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return some_rates(0.1 + 0.1 * static_cast<double>(i));
      });
    });
  }
  for (std::thread& starter : starters) starter.join();
  CHECK(measured == 1);
  for (const KeptRates& each : kept) {
    CHECK(same_rates(each.rates, kept[0].rates));
    CHECK(each.problem.empty());
  }
}

TEST_CASE("kernel rates: measured ones have every cell of the host ISA in use") {
  vector_test::on_every_isa([] {
    const KernelRates rates = measure_kernel_rates();
    REQUIRE(rates.cells.size() == rate_cells(vector::host_isa()).cells.size());
    CHECK(rates.turns > 0);
    for (const KernelRate& rate : rates.cells) CHECK(rate.gflops > 0);
  });
}

// Where classes have kernels of their own, a row or a part alone is multiplied as among others.
TEST_CASE("cube: the class of a shape does not depend on other rows and parts") {
  CubeProblem row{.m = 3, .n = 40, .k = 33};
  CHECK(cube_shape_class(row) == vector::ShapeClass::kVector);
  row.rows_alone = true;
  CubeProblem rows = row;
  rows.m = 300;
  CHECK(cube_shape_class(row) == cube_shape_class(rows));
  const CubeProblem part{.m = 300, .n = 64, .k = 64};
  CubeProblem parts{.m = 300, .n = 64, .k = 128};
  CHECK(cube_shape_class(part) != cube_shape_class(parts));
  parts.parts = 2;
  CHECK(cube_shape_class(part) == cube_shape_class(parts));
}

TEST_SUITE_END();
