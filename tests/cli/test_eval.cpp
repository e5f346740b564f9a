// keel eval, predict and inspect: what they print of saved weights, against weights that are made
// here, and what they refuse.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#ifdef KEEL_TEST_PNG
#include <png.h>
#endif

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <keel/graph/runtime/safetensors.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/safetensors_bytes.h"

TEST_SUITE_BEGIN("cli");

namespace {

using namespace keel_test;
using nlohmann::json;

void check_refused_in_a_line(const ToolResult& result, int exit_code, const Words& parts) {
  CHECK(result.exit_code == exit_code);
  REQUIRE_MESSAGE(lines_of(result.err).size() == 1, result.err);
  for (const std::string& part : parts)
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err << " lacks " << part);
}

// A file of softmax weights as another program writes it: no metadata, no checksums.
std::string softmax_file(const std::vector<float>& w, const std::vector<float>& b,
                         const json& metadata = {}) {
  json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  header["b"] = {{"dtype", "F32"}, {"shape", {b.size()}}, {"data_offsets", {0, b.size() * 4}}};
  header["w"] = {{"dtype", "F32"},
                 {"shape", {w.size() / b.size(), b.size()}},
                 {"data_offsets", {b.size() * 4, (b.size() + w.size()) * 4}}};
  std::string data(reinterpret_cast<const char*>(b.data()), b.size() * 4);
  data.append(reinterpret_cast<const char*>(w.data()), w.size() * 4);
  return safetensors_bytes(header.dump(), data);
}

// Logit c of an image is its first pixel / 255 times c: all ones where it is black.
std::vector<float> ramp_weights() {
  std::vector<float> w(7840, 0.0f);
  for (size_t c = 0; c < 10; ++c) w[c] = static_cast<float>(c);
  return w;
}

// Four test images: two black ones of classes 0 and 3, two with a white first pixel, 9 and 2.
struct FourImages : TempFolder {
  FourImages() {
    std::string pixels(4 * 784, '\0');
    pixels[2 * 784] = pixels[3 * 784] = static_cast<char>(255);
    const std::string classes("\x00\x03\x09\x02", 4);
    for (const auto& [images, labels] :
         {std::pair(kTrainImages, kTrainLabels), std::pair(kTestImages, kTestLabels)}) {
      write(images, idx_bytes({4, 28, 28}, pixels));
      write(labels, idx_bytes({4}, classes));
    }
  }
};

#ifdef KEEL_TEST_PNG
// A PNG file without gAMA and sRGB, as most programs write them, of samples most significant byte
// first. png_image would write a 16-bit one as linear light, and say so in the file.
void write_png(const std::string& path, int side, int bits, int color_type, std::string samples) {
  FILE* const file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file);
  const auto size = static_cast<png_uint_32>(side);
  png_set_IHDR(png, info, size, size, bits, color_type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const size_t row = samples.size() / static_cast<size_t>(side);
  for (size_t at = 0; at < samples.size(); at += row)
    png_write_row(png, reinterpret_cast<png_const_bytep>(samples.data() + at));
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  REQUIRE(std::fclose(file) == 0);
}
#endif

// A training of one model on a small set, with its states.
struct EvaluatedTraining {
  explicit EvaluatedTraining(const std::string& model, const Words& more = {}) {
    DataSet(60, 30).write_to(data);
    Words words = {"train",   "--data", data.path(), "--model", model,       "--batch",      "20",
                   "--steps", "3",      "--save",    file("s"), "--summary", file("summary")};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = run_tool(words);
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    summary = read_json(file("summary"));
  }
  std::string file(const std::string& name) const { return files.file(name); }
  TempFolder data, files;
  json summary;
};

}  // namespace

TEST_CASE("eval: accuracy loss and confusion of weights known beforehand") {
  const FourImages data;
  const TempFolder files;
  const std::string weights =
      files.write("w", softmax_file(ramp_weights(), std::vector<float>(10, 0.0f)));
  for (const std::string backend : {"ref", "cpu", "npu"}) {
    CAPTURE(backend);
    const ToolResult result =
        run_tool({"eval", "--model", "softmax", "--load", weights, "--data", data.path(),
                  "--backend", backend, "--batch", "3", "--top-k", "8", "--json", files.file("j")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    CHECK(result.out.find("accuracy 0.5000 (2 of 4)") != std::string::npos);
    const json j = read_json(files.file("j"));
    CHECK(j.at("images") == 4);
    CHECK(j.at("correct") == 2);
    CHECK(j.at("accuracy") == 0.5);
    // Black images: ten equal logits, the first counts; white ones: 9, 8, ..., 2 are the first
    // eight.
    CHECK(j.at("confusion")[0][0] == 1);
    CHECK(j.at("confusion")[3][0] == 1);
    CHECK(j.at("confusion")[9][9] == 1);
    CHECK(j.at("confusion")[2][9] == 1);
    CHECK(j.at("top_k_accuracy") == 1.0);
    double sum = 0;
    for (int c = 0; c < 10; ++c) sum += std::exp(c);
    const double loss = (2 * std::log(10.0) + 2 * std::log(sum) - 9 - 2) / 4;
    CHECK(j.at("loss").get<double>() == doctest::Approx(loss).epsilon(1e-5));
    CHECK(j.at("classes")[0].at("recall") == 1);
    CHECK(j.at("classes")[0].at("precision") == 0.5);
    CHECK(j.at("classes")[1].at("recall").is_null());
  }
}

TEST_CASE("eval: what the training measured for every model on every backend") {
  for (const std::string model : {"softmax", "mlp", "lenet", "resnet", "transformer", "lstm"}) {
    CAPTURE(model);
    const EvaluatedTraining trained(model);
    for (const std::string backend : {"cpu", "npu"}) {
      const ToolResult result = run_tool(
          {"eval", "--load", trained.file("s"), "--backend", backend, "--json", trained.file("j")});
      REQUIRE_MESSAGE(result.exit_code == 0, result.err);
      const json j = read_json(trained.file("j"));
      CHECK(j.at("model") == model);
      CHECK(j.at("images") == 30);
      CHECK(j.at("loss").get<double>() ==
            doctest::Approx(trained.summary.at("test_loss").get<double>()).epsilon(1e-3));
      if (backend == "npu") {
        CHECK(j.at("accuracy") == trained.summary.at("test_accuracy"));
        CHECK(j.at("top_k_accuracy") == trained.summary.at("test_top_k_accuracy"));
      }
    }
    const ToolResult one = run_tool({"predict", "--load", trained.file("s"), "--index", "7"});
    CHECK_MESSAGE(one.exit_code == 0, one.err);
  }
}

TEST_CASE("eval: splits are those of the training") {
  const EvaluatedTraining trained("softmax", {"--validation", "20"});
  const auto images = [&](const char* split) {
    const ToolResult result = run_tool(
        {"eval", "--load", trained.file("s"), "--split", split, "--json", trained.file("j")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(trained.file("j"));
  };
  CHECK(images("train").at("images") == 40);
  CHECK(images("all").at("images") == 90);
  const json validation = images("validation");
  CHECK(validation.at("images") == 20);
  CHECK(validation.at("accuracy") == trained.summary.at("history").back().at("accuracy"));
  const EvaluatedTraining plain("softmax");
  check_refused_in_a_line(run_tool({"eval", "--load", plain.file("s"), "--split", "validation"}), 1,
                          {"--split", "--validation"});
}

TEST_CASE("eval: files and flags that do not fit are refused and nothing is written") {
  const EvaluatedTraining trained("softmax");
  const TempFolder out;
  const auto refused = [&](Words words, int code, const Words& parts) {
    words.insert(words.begin(), "eval");
    words.insert(words.end(), {"--json", out.file("j")});
    CAPTURE(join(words));
    check_refused_in_a_line(run_tool(words), code, parts);
    CHECK(out.empty());
  };
  const std::string states = trained.file("s");
  refused({}, 2, {"--load", "missing"});
  refused({"--load", trained.file("none")}, 1, {"none"});
  refused({"--load", states, "--model", "mlp"}, 1, {"--model", "softmax", "mlp"});
  refused({"--load", states, "--model", "sotfmax"}, 2, {"--model", "softmax"});
  refused({"--load", states, "--data", trained.file("nowhere")}, 1, {"nowhere"});
  refused({"--load", states, "--label", "y", "--data", "digits"}, 2, {"--label"});
  refused({"--load", states, "--split", "tset"}, 2, {"--split", "test"});
  const std::string bytes = read_text(states);
  for (const size_t size : {size_t{0}, size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
    CAPTURE(size);
    refused({"--load", trained.files.write("cut", bytes.substr(0, size))}, 1, {"cut"});
  }
  const std::string other =
      trained.files.write("other", softmax_file(ramp_weights(), std::vector<float>(10, 0.0f)));
  refused({"--load", other, "--data", "digits"}, 2, {"--model"});
  refused({"--load", other, "--model", "softmax"}, 2,
          {"--load", "other", "does not say on which data", "--data"});
  refused({"--load", other, "--model", "mlp", "--data", trained.data.path()}, 1,
          {"missing in the file", "left aside"});
  auto bad = ramp_weights();
  bad[17] = NAN;
  refused({"--load", trained.files.write("nan", softmax_file(bad, std::vector<float>(10, 0.0f))),
           "--model", "softmax", "--data", trained.data.path()},
          1, {"NaN", "17", "keel inspect"});
  // The output may not be what is read.
  check_refused_in_a_line(run_tool({"eval", "--load", states, "--json", states}), 2,
                          {"--json", "--load"});
  CHECK(read_text(states) == bytes);
}

TEST_CASE("eval: averages of which there are none yet are not used") {
  const TempFolder files;
  const std::string best = files.file("best");
  // The first judgement is the best with a rate of 0, and comes before the first update.
  const EvaluatedTraining trained(
      "mlp", {"--accumulate", "3", "--average", "0.99", "--lr", "0", "--validation", "20",
              "--eval-every", "1", "--metric", "loss", "--save-best", best});
  REQUIRE(trained.summary.at("best_step") == 1);
  const ToolResult result =
      run_tool({"eval", "--load", best, "--split", "validation", "--json", files.file("j")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  const json j = read_json(files.file("j"));
  CHECK(j.at("loss").get<double>() ==
        doctest::Approx(trained.summary.at("best_value").get<double>()).epsilon(1e-6));
}

TEST_CASE("eval: a training that averages its weights is measured by the averages") {
  const EvaluatedTraining trained("mlp", {"--average", "0.9", "--lr", "0.5"});
  const ToolResult result =
      run_tool({"eval", "--load", trained.file("s"), "--json", trained.file("j")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out.find("averaged weights") != std::string::npos);
  const json j = read_json(trained.file("j"));
  CHECK(j.at("weights") == "averaged");
  CHECK(j.at("accuracy") == trained.summary.at("test_accuracy"));
  CHECK(j.at("loss").get<double>() ==
        doctest::Approx(trained.summary.at("test_loss").get<double>()).epsilon(1e-6));
  const ToolResult one = run_tool(
      {"predict", "--load", trained.file("s"), "--index", "7", "--json", trained.file("p")});
  REQUIRE_MESSAGE(one.exit_code == 0, one.err);
  CHECK(read_json(trained.file("p")).at("weights") == "averaged");
  // A training that begins with them begins where the other one ended.
  const ToolResult init = run_tool({"train", "--data", trained.data.path(), "--model", "mlp",
                                    "--batch", "20", "--steps", "1", "--lr", "0", "--init",
                                    trained.file("s"), "--summary", trained.file("init")});
  REQUIRE_MESSAGE(init.exit_code == 0, init.err);
  CHECK(init.out.find("6 taken as averages") != std::string::npos);
  const json begun = read_json(trained.file("init"));
  CHECK(begun.at("test_loss").get<double>() ==
        doctest::Approx(trained.summary.at("test_loss").get<double>()).epsilon(1e-6));
  CHECK(begun.at("init").at("averaged") == 6);

  const EvaluatedTraining plain("softmax");
  const ToolResult last = run_tool({"eval", "--load", plain.file("s"), "--json", plain.file("j")});
  REQUIRE_MESSAGE(last.exit_code == 0, last.err);
  CHECK(read_json(plain.file("j")).at("weights") == "last");
}

TEST_CASE("eval: logits that are no numbers are counted apart and predict names the image") {
  const FourImages data;
  const TempFolder files;
  std::vector<float> w(7840, 0.0f);
  for (size_t c = 0; c < 10; ++c) w[c] = 3e38f;
  // Black: ten equal logits; white: infinity.
  const std::string weights = files.write("w", softmax_file(w, std::vector<float>(10, 3e38f)));
  const Words words = {"--model", "softmax", "--load", weights, "--data", data.path()};
  Words eval = {"eval", "--json", files.file("j")};
  eval.insert(eval.end(), words.begin(), words.end());
  const ToolResult result = run_tool(eval);
  CHECK(result.exit_code == 0);
  CHECK_MESSAGE(result.err.find("2 of 4 images") != std::string::npos, result.err);
  CHECK(result.err.find("image 2") != std::string::npos);
  const json j = read_json(files.file("j"));
  CHECK(j.at("non_finite") == 2);
  CHECK(j.at("images") == 4);
  CHECK(j.at("correct") == 1);
  CHECK(j.at("loss").get<double>() == doctest::Approx(std::log(10.0)).epsilon(1e-5));
  for (const size_t label : {size_t{9}, size_t{2}}) {
    CHECK(j.at("classes")[label].at("images") == 1);
    CHECK(j.at("classes")[label].at("recall") == 0);
    for (const json& count : j.at("confusion")[label]) CHECK(count == 0);
  }
  Words predict = {"predict", "--index", "2", "--json", files.file("p")};
  predict.insert(predict.end(), words.begin(), words.end());
  const ToolResult one = run_tool(predict);
  check_refused_in_a_line(one, 1, {"image 2", "infinity"});
  CHECK(one.out.empty());
  CHECK_FALSE(std::filesystem::exists(files.file("p")));
}

TEST_CASE("eval: images kept aside are those of the data that was trained on") {
  const EvaluatedTraining trained("softmax", {"--validation", "20"});
  const DataFolder other(80, 30);
  const Words words = {"eval", "--load", trained.file("s"), "--data", other.path(), "--split"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run_tool(more);
  };
  check_refused_in_a_line(with({"validation"}), 1, {"--split", "another training set"});
  const ToolResult all = with({"train", "--json", trained.file("j")});
  REQUIRE_MESSAGE(all.exit_code == 0, all.err);
  CHECK(read_json(trained.file("j")).at("images") == 80);
}

TEST_CASE("eval: data that moved and flags about other data are told by their flags") {
  const EvaluatedTraining trained("softmax");
  check_refused_in_a_line(run_tool({"eval", "--load", trained.file("s"), "--label", "y"}), 2,
                          {"--label", "table", trained.data.path()});
  std::filesystem::remove_all(trained.data.path());
  check_refused_in_a_line(run_tool({"eval", "--load", trained.file("s")}), 1,
                          {trained.file("s"), trained.data.path(), "--data"});
}

TEST_CASE("eval: whole numbers are floats to a model that was trained on floats") {
  const TempFolder files;
  std::string floats = "a,b,y\n", whole = floats;
  for (int i = 0; i < 40; ++i) {
    floats += fmt::format("{}.5,{},{}\n", i % 7, i % 3, i % 2);
    whole += fmt::format("{},{},{}\n", i % 7, i % 3, i % 2);
  }
  const std::string data = files.write("floats.csv", floats);
  const ToolResult train = run_tool({"train", "--data", data, "--label", "y", "--batch", "10",
                                     "--steps", "2", "--save", files.file("s")});
  REQUIRE_MESSAGE(train.exit_code == 0, train.err);
  const ToolResult result =
      run_tool({"eval", "--load", files.file("s"), "--data", files.write("whole.csv", whole)});
  CHECK_MESSAGE(result.exit_code == 0, result.err);
}

TEST_CASE("eval: the confusion of classes that are all right keeps its columns apart") {
  TempFolder data;
  std::string pixels(10 * 784, '\0'), classes;
  for (size_t c = 0; c < 10; ++c) {
    pixels[c * 784 + c] = static_cast<char>(255);
    classes += static_cast<char>(c);
  }
  for (const auto& [images, labels] :
       {std::pair(kTrainImages, kTrainLabels), std::pair(kTestImages, kTestLabels)}) {
    data.write(images, idx_bytes({10, 28, 28}, pixels));
    data.write(labels, idx_bytes({10}, classes));
  }
  std::vector<float> w(7840, 0.0f);
  for (size_t c = 0; c < 10; ++c) w[c * 10 + c] = 9;
  const std::string weights = data.write("w", softmax_file(w, std::vector<float>(10, 0.0f)));
  const ToolResult result =
      run_tool({"eval", "--model", "softmax", "--load", weights, "--data", data.path()});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out.find(" 100.0 100.0") != std::string::npos);
  CHECK(result.out.find("0100.0") == std::string::npos);
}

TEST_CASE("predict: a size that a file claims is held against its states first") {
  const TempFolder files;
  const std::string image = files.write("image", "P2 2 1 255 0 255");
  const auto claims = [&](const std::string& side, const std::string& channels) {
    const json metadata = {{"model", "softmax"},   {"image_dtype", "u8"},
                           {"image_height", side}, {"image_width", side},
                           {"classes", "10"},      {"image_channels", channels}};
    const std::string file =
        files.write("w", softmax_file(ramp_weights(), std::vector<float>(10, 0.0f), metadata));
    return run_tool({"predict", "--load", file, "--image", image});
  };
  check_refused_in_a_line(claims("4000", "1"), 1, {"states of this model", "f32[16000000, 10]"});
  check_refused_in_a_line(claims("100000", "1"), 1, {"100000x100000", "MiB"});
  check_refused_in_a_line(claims("28", "2"), 1, {"image_channels", "2"});
  const ToolResult fits = claims("28", "1");
  CHECK_MESSAGE(fits.exit_code == 0, fits.err);
}

TEST_CASE("inspect: shapes norms and what is no number") {
  const TempFolder files;
  std::vector<float> w(20, 0.0f);
  w[0] = 3;
  w[1] = -4;
  w[2] = NAN;
  w[3] = INFINITY;
  w[4] = -INFINITY;
  const std::string path = files.write("w", softmax_file(w, {1, 2}));
  const ToolResult result = run_tool({"inspect", path, "--json", files.file("j")});
  REQUIRE_MESSAGE(result.exit_code == 0, result.err);
  CHECK(result.out.find("f32[10, 2]") != std::string::npos);
  CHECK(result.out.find("1 NaN and 2 infinite") != std::string::npos);
  CHECK(result.out.find("another program") != std::string::npos);
  const json j = read_json(files.file("j"));
  CHECK(j.at("checksums") == false);
  CHECK(j.at("elements") == 22);
  REQUIRE(j.at("tensors").size() == 2);
  const json& of_w = j.at("tensors")[1];
  CHECK(of_w.at("name") == "w");
  CHECK(of_w.at("dtype") == "f32");
  CHECK(of_w.at("shape") == json({10, 2}));
  CHECK(of_w.at("norm") == 5);
  CHECK(of_w.at("min") == -4);
  CHECK(of_w.at("max") == 3);
  CHECK(of_w.at("nan") == 1);
  CHECK(of_w.at("inf") == 2);
  CHECK(j.at("tensors")[0].at("mean") == 1.5);

  // Squares of these are beyond f64.
  keel::write_safetensors(files.file("large"),
                          {{"x", keel::Tensor::of<double>({2}, {3e200, -4e200})}});
  REQUIRE(run_tool({"inspect", files.file("large"), "--json", files.file("j2")}).exit_code == 0);
  CHECK(read_json(files.file("j2")).at("tensors")[0].at("norm").get<double>() ==
        doctest::Approx(5e200));

  check_refused_in_a_line(run_tool({"inspect"}), 2, {"file is missing"});
  check_refused_in_a_line(run_tool({"inspect", files.file("none")}), 1, {"none"});
  check_refused_in_a_line(run_tool({"inspect", path, "--json", path}), 2, {"--json"});
  const std::string cut = files.write("cut", read_text(path).substr(0, 40));
  check_refused_in_a_line(run_tool({"inspect", cut, "--json", files.file("never")}), 1, {"cut"});
  CHECK_FALSE(std::filesystem::exists(files.file("never")));
}

TEST_CASE("predict: probabilities and a picture of images and of files") {
  const FourImages data;
  const TempFolder files;
  const std::string weights =
      files.write("w", softmax_file(ramp_weights(), std::vector<float>(10, 0.0f)));
  const Words words = {"predict", "--load", weights, "--model", "softmax"};
  const auto predict = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    more.insert(more.end(), {"--json", files.file("j")});
    const ToolResult result = run_tool(more);
    CAPTURE(join(more));
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    json j = read_json(files.file("j"));
    j["out"] = result.out;
    return j;
  };
  double sum = 0;
  for (int c = 0; c < 10; ++c) sum += std::exp(c);
  const json of_set = predict({"--data", data.path(), "--index", "2"});
  CHECK(of_set.at("predicted") == 9);
  CHECK(of_set.at("label") == 9);
  CHECK(of_set.at("probabilities")[9].get<double>() ==
        doctest::Approx(std::exp(9) / sum).epsilon(1e-5));
  CHECK(of_set.at("out").get<std::string>().find("<- its class") != std::string::npos);

  // The same image as text, as bytes, with 16 bits, and inverted.
  std::string text = "P2\n# white in the corner\n28 28 15\n15", binary = "P5 28 28 255\n",
              deep = "P5\n28 28\n65535\n", dark = "P5 28 28 255\n";
  for (int i = 0; i < 784; ++i) {
    if (i > 0) text += " 0";
    binary += static_cast<char>(i == 0 ? 255 : 0);
    deep += std::string(2, static_cast<char>(i == 0 ? 255 : 0));
    dark += static_cast<char>(i == 0 ? 0 : 255);
  }
  for (const std::string& bytes : {text, binary, deep}) {
    const json j = predict({"--image", files.write("p.pgm", bytes)});
    CHECK(j.at("probabilities") == of_set.at("probabilities"));
    CHECK_FALSE(j.contains("label"));
  }
  const json inverted = predict({"--image", files.write("d.pgm", dark), "--invert"});
  CHECK(inverted.at("probabilities") == of_set.at("probabilities"));
  // Twice as large: each pixel covers four.
  std::string large = "P5 56 56 255\n" + std::string(56 * 56, '\0');
  for (const size_t at : {0u, 1u, 56u, 57u}) large[13 + at] = static_cast<char>(255);
  const json resized = predict({"--image", files.write("l.pgm", large)});
  CHECK(resized.at("probabilities") == of_set.at("probabilities"));
  CHECK(resized.at("out").get<std::string>().find("resized from 56x56 to 28x28") !=
        std::string::npos);
#ifdef KEEL_TEST_PNG
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = 28;
  image.format = PNG_FORMAT_GRAY;
  REQUIRE(png_image_write_to_file(&image, files.file("p.png").c_str(), 0, binary.data() + 13, 0,
                                  nullptr) != 0);
  CHECK(predict({"--image", files.file("p.png")}).at("probabilities") ==
        of_set.at("probabilities"));
  const std::string png = read_text(files.file("p.png"));
  const std::string cut = files.write("cut.png", png.substr(0, png.size() / 2));
  check_refused_in_a_line(
      run_tool({"predict", "--load", weights, "--model", "softmax", "--image", cut}), 1,
      {"cut.png", "PNG"});
#endif
}

#ifdef KEEL_TEST_PNG
TEST_CASE("predict: a PNG file of 16 bits has the pixels of its twins of 8 bits and as PGM") {
  const TempFolder files;
  // Logit c is the sum of the 78 pixels from 78 c on, over 255 and 78: no pixel is without effect.
  std::vector<float> w(7840, 0.0f);
  for (size_t pixel = 0; pixel < 780; ++pixel) w[pixel * 10 + pixel / 78] = 1.0f / 78;
  const std::string weights = files.write("w", softmax_file(w, std::vector<float>(10, 0.0f)));
  const auto probabilities = [&](const std::string& image) {
    const ToolResult result = run_tool({"predict", "--load", weights, "--model", "softmax",
                                        "--image", image, "--json", files.file("j")});
    REQUIRE_MESSAGE(result.exit_code == 0, result.err);
    return read_json(files.file("j")).at("probabilities");
  };
  // In 16 bits value v of 255 is 257 v of 65535: the same byte twice.
  std::string grey, grey16, rgb, rgb16;
  for (int i = 0; i < 784; ++i) {
    for (int c = 0; c < 3; ++c) {
      const auto value = static_cast<char>(i * i / 2411 + c * i % 256 / (c + 2));
      rgb += value;
      rgb16 += std::string(2, value);
      if (c > 0) continue;
      grey += value;
      grey16 += std::string(2, value);
    }
  }
  const json of_grey = probabilities(files.write("p.pgm", "P5 28 28 255\n" + grey));
  const json of_rgb = probabilities(files.write("p.ppm", "P6 28 28 255\n" + rgb));
  CHECK(of_grey != of_rgb);
  CHECK(probabilities(files.write("d.pgm", "P5 28 28 65535\n" + grey16)) == of_grey);
  const std::string png = files.file("p.png");
  write_png(png, 28, 8, PNG_COLOR_TYPE_GRAY, grey);
  CHECK(probabilities(png) == of_grey);
  write_png(png, 28, 16, PNG_COLOR_TYPE_GRAY, grey16);
  CHECK(probabilities(png) == of_grey);
  write_png(png, 28, 8, PNG_COLOR_TYPE_RGB, rgb);
  CHECK(probabilities(png) == of_rgb);
  write_png(png, 28, 16, PNG_COLOR_TYPE_RGB, rgb16);
  CHECK(probabilities(png) == of_rgb);
}
#endif

TEST_CASE("predict: a large image is read where --read-budget says so") {
  const FourImages data;
  const TempFolder files;
  const std::string states =
      files.write("states", softmax_file(ramp_weights(), std::vector<float>(10, 0.0f)));
  const std::string large =
      files.write("l.pgm", "P5 1200 1200 255\n" + std::string(1200 * 1200, '\0'));
  Words words = {"predict", "--load", states, "--model", "softmax", "--image", large};
  CHECK(run_tool(words).exit_code == 0);
  words.insert(words.end(), {"--read-budget", "1"});
  check_refused_in_a_line(run_tool(words), 1, {"l.pgm"});
  words.back() = "2";
  CHECK(run_tool(words).exit_code == 0);
  words.back() = "0";
  check_refused_in_a_line(run_tool(words), 2, {"--read-budget"});
}

TEST_CASE("predict: what is no image is refused") {
  const FourImages data;
  const TempFolder files, out;
  const std::string weights =
      files.write("w", softmax_file(ramp_weights(), std::vector<float>(10, 0.0f)));
  const auto refused = [&](Words more, int code, const Words& parts) {
    more.insert(more.begin(), {"predict", "--load", weights, "--model", "softmax"});
    more.insert(more.end(), {"--json", out.file("j")});
    CAPTURE(join(more));
    check_refused_in_a_line(run_tool(more), code, parts);
    CHECK(out.empty());
  };
  refused({}, 2, {"--index", "--image"});
  refused({"--index", "0", "--image", "x"}, 2, {"--index"});
  refused({"--index", "4", "--data", data.path()}, 1, {"--index", "0 to 3"});
  refused({"--index", "-1", "--data", data.path()}, 2, {"--index"});
  refused({"--image", "x.pgm", "--data", data.path()}, 2, {"--data"});
  refused({"--image", files.file("none.pgm")}, 1, {"none.pgm"});
  const auto bad = [&](const std::string& bytes, const char* part) {
    refused({"--image", files.write("b.pgm", bytes)}, 1, {"b.pgm", part});
  };
  bad("hello", "PNG");
  bad("P5 28 28 255\n" + std::string(783, 'a'), "truncated");
  bad("P5 0 28 255\n", "28");
  bad("P5 65536 65536 255\n", "65536");
  bad("P5 99999999999999999999 1 255\n", "width");
  bad("P5 28 28 70000\n", "largest");
  bad("P5 1 1 7\nz", "122");
  bad("P2 2 1 255\n1 x", "value 1");
  bad("P2 ", "width");
}

TEST_CASE("keel eval names the file of another program whose count of updates is none") {
  const FourImages images;
  const TempFolder files;
  nlohmann::json header;
  header["b"] = {{"dtype", "F32"}, {"shape", {10}}, {"data_offsets", {0, 40}}};
  header["keel/updates"] = {{"dtype", "F32"}, {"shape", {3}}, {"data_offsets", {40, 52}}};
  header["w"] = {{"dtype", "F32"}, {"shape", {784, 10}}, {"data_offsets", {52, 31412}}};
  const std::string path =
      files.write("w", safetensors_bytes(header.dump(), std::string(31412, '\0')));
  check_refused_in_a_line(
      run_tool({"eval", "--model", "softmax", "--data", images.path(), "--load", path}), 1,
      {"--load: " + path, "'keel/updates'", "count of updates", "f32[3]"});
}

TEST_SUITE_END();
