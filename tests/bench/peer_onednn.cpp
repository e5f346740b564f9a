#include <algorithm>
#include <memory>

#if KEEL_BENCH_ONEDNN
#include <omp.h>

#include <dnnl.hpp>
#endif

#include "bench/peers.h"

namespace keel_bench {

#if KEEL_BENCH_ONEDNN
namespace {

using dnnl::memory;

struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

Context& context() {
  static Context instance;
  omp_set_num_threads(1);
  return instance;
}

memory wrap(const memory::desc& desc, const void* data) {
  return memory(desc, context().engine, const_cast<void*>(data));
}

Contestant product(const char* name, const Product& p, memory::data_type type, const void* a,
                   const void* b, float* c) {
  const auto m = static_cast<memory::dim>(p.m), k = static_cast<memory::dim>(p.k),
             n = static_cast<memory::dim>(p.n);
  const memory::desc left({m, k}, type, p.transpose_a ? memory::dims{1, m} : memory::dims{k, 1});
  const memory::desc right({k, n}, type, p.transpose_b ? memory::dims{1, k} : memory::dims{n, 1});
  const memory::desc result({m, n}, memory::data_type::f32, memory::dims{n, 1});
  const dnnl::matmul::desc desc(left, right, result);
  auto run = std::make_shared<dnnl::matmul>(dnnl::matmul::primitive_desc(desc, context().engine));
  const std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, wrap(left, a)},
                                                  {DNNL_ARG_WEIGHTS, wrap(right, b)},
                                                  {DNNL_ARG_DST, wrap(result, c)}};
  return {name, [run, arguments] {
            run->execute(context().stream, arguments);
            context().stream.wait();
          }};
}

// Memory of its own, filled with numbers that arithmetic is not slow with.
memory filled(const memory::desc& desc) {
  memory made(desc, context().engine);
  auto* data = static_cast<float*>(made.get_data_handle());
  std::fill_n(data, desc.get_size() / sizeof(float), 0.25f);
  return made;
}

template <class Primitive>
Contestant convolution(const char* name, const typename Primitive::primitive_desc& desc,
                       const std::unordered_map<int, memory>& arguments) {
  auto run = std::make_shared<Primitive>(desc);
  return {name, [run, arguments] {
            run->execute(context().stream, arguments);
            context().stream.wait();
          }};
}

// `images` and `weights` are the layouts; "any" leaves the choice to oneDNN.
Contestant convolution(const char* name, const Convolution& c, ConvolutionPart part,
                       memory::format_tag images, memory::format_tag weights) {
  constexpr auto f32 = memory::data_type::f32;
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const int64_t padded = std::max<int64_t>(0, (c.out_size() - 1) * c.stride + c.kernel - c.size);
  const memory::dims stride{c.stride, c.stride}, front{padded / 2, padded / 2},
      behind{padded - padded / 2, padded - padded / 2};
  const memory::desc x({c.batch, c.in, c.size, c.size}, f32, images);
  const memory::desc w({c.out, c.in, c.kernel, c.kernel}, f32, weights);
  const memory::desc y({c.batch, c.out, c.out_size(), c.out_size()}, f32, images);
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, x, w, y, stride, front, behind},
      context().engine);
  if (part == ConvolutionPart::kForward) {
    return convolution<dnnl::convolution_forward>(
        name, forward,
        {{DNNL_ARG_SRC, filled(forward.src_desc())},
         {DNNL_ARG_WEIGHTS, filled(forward.weights_desc())},
         {DNNL_ARG_DST, filled(forward.dst_desc())}});
  }
  if (part == ConvolutionPart::kInputGradient) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        {direct, x, w, y, stride, front, behind}, context().engine, forward);
    return convolution<dnnl::convolution_backward_data>(
        name, desc,
        {{DNNL_ARG_DIFF_SRC, filled(desc.diff_src_desc())},
         {DNNL_ARG_WEIGHTS, filled(desc.weights_desc())},
         {DNNL_ARG_DIFF_DST, filled(desc.diff_dst_desc())}});
  }
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {direct, x, w, y, stride, front, behind}, context().engine, forward);
  return convolution<dnnl::convolution_backward_weights>(
      name, desc,
      {{DNNL_ARG_SRC, filled(desc.src_desc())},
       {DNNL_ARG_DIFF_WEIGHTS, filled(desc.diff_weights_desc())},
       {DNNL_ARG_DIFF_DST, filled(desc.diff_dst_desc())}});
}

}  // namespace

std::vector<Contestant> onednn_convolutions(const Convolution& c, ConvolutionPart part) {
  using Tag = memory::format_tag;
  return {convolution("oneDNN", c, part, Tag::any, Tag::any),
          convolution("oneDNN NHWC", c, part, Tag::nhwc, Tag::hwio)};
}

std::vector<Contestant> onednn_products(const Product& p, const float* a, const float* b,
                                        float* c) {
  const auto m = static_cast<dnnl_dim_t>(p.m), k = static_cast<dnnl_dim_t>(p.k),
             n = static_cast<dnnl_dim_t>(p.n);
  return {{"oneDNN sgemm",
           [=] {
             dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', m, n, k, 1, a,
                        p.transpose_a ? m : k, b, p.transpose_b ? k : n, 0, c, n);
           }},
          product("oneDNN matmul", p, memory::data_type::f32, a, b, c)};
}

std::vector<Contestant> onednn_bf16_products(const Product& p, const void* a, const void* b,
                                             float* c) {
  try {
    return {product("oneDNN", p, memory::data_type::bf16, a, b, c)};
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented) throw;
    return {};  // It has bf16 for processors with AVX-512 alone.
  }
}

std::vector<Contestant> onednn_softmax(float* from, float* to, size_t rows, size_t cols) {
  const memory::desc desc({static_cast<memory::dim>(rows), static_cast<memory::dim>(cols)},
                          memory::data_type::f32, memory::format_tag::ab);
  auto run = std::make_shared<dnnl::softmax_forward>(dnnl::softmax_forward::primitive_desc(
      {dnnl::prop_kind::forward_inference, desc, 1}, context().engine));
  const std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, wrap(desc, from)},
                                                  {DNNL_ARG_DST, wrap(desc, to)}};
  return {{"oneDNN", [run, arguments] {
             run->execute(context().stream, arguments);
             context().stream.wait();
           }}};
}

#else

std::vector<Contestant> onednn_products(const Product&, const float*, const float*, float*) {
  return {};
}
std::vector<Contestant> onednn_bf16_products(const Product&, const void*, const void*, float*) {
  return {};
}
std::vector<Contestant> onednn_softmax(float*, float*, size_t, size_t) { return {}; }
std::vector<Contestant> onednn_convolutions(const Convolution&, ConvolutionPart) { return {}; }

#endif

}  // namespace keel_bench
