// --disable-pass on the commands that compile a model, and the table of passes.
#include <doctest/doctest.h>

#include "cli/data_set.h"
#include "cli/tool.h"
#include "support/error_of.h"

TEST_SUITE_BEGIN("cli");

namespace keel_test {
namespace {

using nlohmann::json;

Words that_may_be_disabled() {
  Words names;
  const json table = json::parse(done({"info", "--passes", "--json"}).out);
  for (const json& pass : table.at("passes"))
    if (pass.at("may_be_disabled")) names.push_back(pass.at("name"));
  return names;
}

}  // namespace

TEST_CASE("keel info --passes lists the passes and their conflicts") {
  const json table = json::parse(done({"info", "--passes", "--json"}).out);
  CHECK(that_may_be_disabled() == Words{"fold", "cancel_transposes", "drop_unread_variables", "cse",
                                        "recompute_cheap", "fuse"});
  CHECK(table.at("conflicts").size() == 1);
  const std::string text = done({"info", "--passes"}).out;
  for (const json& pass : table.at("passes")) {
    CHECK(contains(text, pass.at("name").get<std::string>()));
    CHECK(contains(text, pass.at("summary").get<std::string>()));
    CHECK(pass.at("required").get<std::string>().empty() == pass.at("may_be_disabled").get<bool>());
  }
  CHECK(contains(text, "cannot be switched off: the backend needs it"));
  CHECK(contains(text, "fuse: recompute_cheap is off, too"));
}

TEST_CASE("a training has the same bits without any pass that may be switched off") {
  const DataFolder data(60, 20);
  const auto trained = [&](const Words& more, const std::string& backend) {
    Words words{"train",
                "--model",
                "mlp",
                "--data",
                data.path(),
                "--steps",
                "4",
                "--batch",
                "20",
                "--backend",
                backend,
                "--summary",
                data.file("summary.json")};
    words.insert(words.end(), more.begin(), more.end());
    done(words);
    return read_json(data.file("summary.json"));
  };
  for (const char* backend : {"cpu", "npu"}) {
    const json expected = trained({}, backend);
    CHECK_FALSE(expected.contains("disabled_passes"));
    for (const std::string& pass : that_may_be_disabled()) {
      CAPTURE(backend);
      CAPTURE(pass);
      const json without = trained({"--disable-pass", pass}, backend);
      CHECK(without.at("disabled_passes") == json::array({pass}));
      CHECK(without.at("state_sha256") == expected.at("state_sha256"));
    }
  }
}

TEST_CASE("passes that are off stay off in a training that is resumed") {
  const DataFolder data(60, 20);
  const auto trained = [&](const Words& more, const std::string& summary) {
    Words words{"train", "--batch", "20", "--summary", data.file(summary)};
    words.insert(words.end(), more.begin(), more.end());
    const ToolResult result = done(words);
    return std::pair(read_json(data.file(summary)), result.err);
  };
  const Words start{"--data", data.path(), "--disable-pass", "fold", "--disable-pass", "cse"};
  Words whole = start, part = start;
  whole.insert(whole.end(), {"--steps", "4"});
  part.insert(part.end(), {"--steps", "2", "--save", data.file("saved")});
  const json expected = trained(whole, "whole").first;
  trained(part, "part");
  const Words resume{"--resume", data.file("saved"), "--steps", "4"};
  const auto [kept, silent] = trained(resume, "kept");
  CHECK(kept.at("disabled_passes") == json::array({"fold", "cse"}));
  CHECK(kept.at("state_sha256") == expected.at("state_sha256"));
  CHECK(silent.empty());
  // The same in another order is the same; others hold and are told of.
  Words same = resume, other = resume, still_off = resume;
  same.insert(same.end(), {"--disable-pass", "cse", "--disable-pass", "fold"});
  CHECK(trained(same, "same").second.empty());
  other.insert(other.end(), {"--disable-pass", "cse"});
  const auto [changed, told] = trained(other, "other");
  CHECK(changed.at("disabled_passes") == json::array({"cse"}));
  CHECK(contains(told,
                 "was trained with fold, cse switched off, and goes on with cse: the last "
                 "bits may differ"));
  CHECK(changed.at("warnings").size() == 1);
  still_off.insert(still_off.end(), {"--disable-pass", "fold"});
  CHECK_FALSE(contains(trained(still_off, "still_off").second, "bits may differ"));
}

TEST_CASE("keel graph --compiled shows the passes that ran and what followed") {
  const Words compiled{"graph", "--compiled", "--backend", "npu"};
  const std::string with = done(compiled).out;
  CHECK(contains(with, "\npasses: specialise dequeue decompose "));
  CHECK(contains(with, " cse recompute_cheap fuse make_sunk_loop backend\n"));
  Words words = compiled;
  words.insert(words.end(), {"--disable-pass", "fuse", "--disable-pass", "cse"});
  const ToolResult without = done(words);
  CHECK(contains(without.out, " drop_unread_variables make_sunk_loop backend\n"));
  CHECK(contains(without.out, "  without fuse the pass recompute_cheap is off, too: "));
  CHECK(contains(without.err, "without fuse the pass recompute_cheap is off, too"));
}

TEST_CASE("--disable-pass refuses unknown and required passes and goes with compiling alone") {
  struct Case {
    Words words;
    Words parts;
  };
  const std::vector<Case> cases = {
      {{"train", "--disable-pass", "fusse"}, {"--disable-pass", "'fusse'", "did you mean 'fuse'?"}},
      {{"eval", "--load", "x", "--disable-pass", "decompose"},
       {"--disable-pass", "decompose", "cannot be switched off: the backend needs it"}},
      {{"graph", "--compiled", "--disable-pass", "precision"}, {"cannot be switched off"}},
      {{"bench", "compile", "--disable-pass", "Fuse"}, {"--disable-pass", "'Fuse'"}},
      {{"bench", "loop", "--disable-pass", ""}, {"--disable-pass"}},
      {{"graph", "--disable-pass", "fuse"}, {"--disable-pass", "add --compiled"}}};
  for (const Case& c : cases) {
    const ToolResult result = run_tool(c.words);
    CAPTURE(join(c.words));
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(lines_of(result.err).size() == 1);
    for (const std::string& part : c.parts) CHECK(contains(result.err, part));
  }
}

TEST_CASE("keel bench compile measures without a pass") {
  const DataFolder folder(20, 20);
  const std::string path = folder.file("compile.json");
  done({"bench", "compile", "--sizes", "20", "--rounds", "1", "--backends", "cpu", "--disable-pass",
        "fuse", "--json", path});
  const json measured = read_json(path);
  for (const json& row : measured.at("rows"))
    for (const json& pass : row.at("passes")) CHECK(pass.at("name") != "fuse");
}

}  // namespace keel_test

TEST_SUITE_END();
