#include "keel/graph/precision/precision_mode.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

using enum PrecisionForm;

// Adds the forms that are tried where a node cannot be had in the graph's dtypes.
std::vector<PrecisionForm> at_first(std::vector<PrecisionForm> forms) {
  for (const PrecisionForm form : {kGraph, kF32, kHost}) {
    if (std::find(forms.begin(), forms.end(), form) == forms.end()) forms.push_back(form);
  }
  return forms;
}

PrecisionEntry everything(std::vector<PrecisionForm> forms, const char* what = "everything") {
  return {.what = what, .forms = std::move(forms)};
}

// Keel's own: products alone, which the ops of the white list are, are low, and their results are
// f32.
std::vector<PrecisionEntry> wide_products() {
  return {{.what = "products", .mix = MixClass::kWhite, .forms = {kWide, kGraph}},
          everything({kGraph}, "everything else")};
}

std::vector<PrecisionEntry> low_products() {
  return {{.what = "products", .mix = MixClass::kWhite, .forms = at_first({kLow})},
          everything({kGraph, kF32, kLow, kHost}, "everything else")};
}

std::vector<PrecisionEntry> cube_in_f16() {
  return {{.what = "products", .mix = MixClass::kWhite, .forms = {kWide, kF32, kGraph, kLow}},
          everything(at_first({kF32}), "everything else")};
}

std::vector<PrecisionEntry> by_mix_class() {
  return {{.what = "white list", .mix = MixClass::kWhite, .forms = at_first({kLow})},
          {.what = "black list", .mix = MixClass::kBlack, .forms = at_first({kF32})},
          {.what = "gray", .mix = MixClass::kGray, .follows = true, .forms = at_first({kLow})}};
}

std::vector<PrecisionMode> short_modes() {
  return {{.name = kDefaultPrecision, .summary = "every node in the dtype the graph gives it"},
          {.name = "mixed_bf16",
           .summary = "products of bf16 operands with f32 sums, everything else and the states f32",
           .low = bf16,
           .entries = wide_products(),
           .needs = "bf16"},
          {.name = "mixed_fp16",
           .summary = "products of f16 operands with f32 sums, everything else and the states f32",
           .low = f16,
           .entries = wide_products()}};
}

PrecisionMode keeps_origin(const char* name) {
  return {.name = name,
          .summary = "the graph's dtypes; what the device lacks in them in f32, else on the AI CPU",
          .entries = {everything({kGraph, kF32, kHost})}};
}
PrecisionMode all_f16(const char* name) {
  return {.name = name,
          .summary =
              "everything in f16; what the device lacks in it as the graph has it; for "
              "inference",
          .low = f16,
          .entries = {everything(at_first({kLow}))},
          .for_inference = true};
}
PrecisionMode f16_into_f32(const char* name) {
  return {.name = name,
          .summary =
              "products of f16 operands with f32 results, else in f32, else in f16; "
              "everything else in f32",
          .low = f16,
          .entries = cube_in_f16()};
}
PrecisionMode products_in(const char* name, DType low) {
  return {.name = name,
          .summary = std::string("products in ") + name_of(low) +
                     ", everything else in f32 where "
                     "the device has it",
          .low = low,
          .entries = low_products(),
          .needs = low == bf16 ? "bf16" : ""};
}
PrecisionMode mixed(const char* name, DType low) {
  const std::string dtype = name_of(low);
  return {.name = name,
          .summary = "ops of the white list in " + dtype +
                     ", of the black list in f32; gray ones " + "follow their operands",
          .low = low,
          .entries = by_mix_class(),
          .mixes = true,
          .needs = low == bf16 ? "bf16" : ""};
}
// No dtype of Keel's is hif8, and no device has it: the mode is known, and refused by all.
PrecisionMode hif8(const char* name, const char* summary) {
  return {.name = name, .summary = summary, .needs = "hif8"};
}

}  // namespace

const char* name_of(PrecisionForm form) noexcept {
  static constexpr const char* kNames[] = {"keep", "low (f32 sums)", "low", "f32", "AI CPU"};
  return kNames[static_cast<size_t>(form)];
}

const char* name_of(PrecisionOption option) noexcept {
  static constexpr const char* kNames[] = {"precision", "precision_mode", "precision_mode_v2"};
  return kNames[static_cast<size_t>(option)];
}

bool compute_alike(const PrecisionMode& a, const PrecisionMode& b) {
  return a.low == b.low && a.entries == b.entries && a.mixes == b.mixes &&
         a.for_inference == b.for_inference && a.needs == b.needs;
}

const std::vector<PrecisionMode>& precision_modes(PrecisionOption option) {
  static const std::vector<PrecisionMode> lists[] = {
      short_modes(),
      {f16_into_f32("force_fp32"), products_in("allow_fp32_to_fp16", f16), all_f16("force_fp16"),
       keeps_origin("must_keep_origin_dtype"), mixed("allow_mix_precision", f16),
       f16_into_f32("cube_fp16in_fp32out"), mixed("allow_mix_precision_fp16", f16),
       mixed("allow_mix_precision_bf16", bf16), products_in("allow_fp32_to_bf16", bf16)},
      {all_f16("fp16"), keeps_origin("origin"), f16_into_f32("cube_fp16in_fp32out"),
       mixed("mixed_float16", f16), mixed("mixed_bfloat16", bf16),
       hif8("mixed_hif8", "as mixed_float16, in hif8"),
       hif8("cube_hif8", "products of hif8 operands")}};
  return lists[static_cast<size_t>(option)];
}

std::vector<std::string> precision_names(PrecisionOption option) {
  std::vector<std::string> names;
  for (const PrecisionMode& mode : precision_modes(option)) names.push_back(mode.name);
  return names;
}

namespace {

// Returns what to do with a name that another list has, which is no misspelt one of this; empty
// where none has it.
std::string home_of(const std::string& name) {
  using enum PrecisionOption;
  for (const PrecisionOption option : {kShort, kMode, kModeV2}) {
    const std::vector<std::string> names = precision_names(option);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    const char* member = option == kShort ? "name" : option == kMode ? "mode" : "mode_v2";
    return std::string("it is a name of ") + name_of(option) + ": take keel::Precision::named(\"" +
           name + "\"), which sets ." + member;
  }
  return "";
}

std::string known_name(const std::string& name, PrecisionOption option) {
  try {
    return parse_choice(name, name_of(option), precision_names(option));
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    if (const std::string home = home_of(name); !home.empty()) info.fix = home;
    throw Error(std::move(info));
  }
}

}  // namespace

const PrecisionMode& find_precision_mode(const std::string& name, PrecisionOption option) {
  const std::string known = known_name(name, option);
  const std::vector<PrecisionMode>& modes = precision_modes(option);
  return *std::find_if(modes.begin(), modes.end(),
                       [&](const PrecisionMode& mode) { return mode.name == known; });
}

}  // namespace keel
