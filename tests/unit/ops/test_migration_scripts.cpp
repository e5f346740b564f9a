// Which names a scan finds in a Python script, and on which lines. The scripts are ours; what is
// expected of each was counted by hand.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/read_budget.h"
#include "keel/ops/exchange/migration/python_script.h"

#include "support/error_of.h"

namespace keel::migration {
namespace {

// "12 tf.Session" for each use.
std::vector<std::string> uses_of(const std::string& script, const ApiTable& table) {
  std::vector<std::string> uses;
  scan_python(
      script, "script.py", table, [](std::string_view module) { return module == "own"; },
      [&](uint32_t line, const Finding& finding) {
        uses.push_back(std::to_string(line) + " " + finding.name);
      });
  return uses;
}
std::vector<std::string> uses_of(const std::string& script) {
  static const ApiTable table = ApiTable::builtin();
  return uses_of(script, table);
}

using Uses = std::vector<std::string>;

std::string refusal_of(const std::string& script) {
  return keel_test::error_of([&] { uses_of(script); });
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("migration: comments and strings hold no uses") {
  CHECK(uses_of("import tensorflow as tf\n"
                "# tf.Session()\n"
                "a = 'tf.Session' \"tf.Session\" # tf.Session\n"
                "'''tf.Session\n\"\"\" tf.Session '\\''' '' tf.Session'''\n"
                "b = r'\\'' + ''' tf.Session'''\n"
                "c = f\"{a} tf.Session\" + Rb'tf.Session' + u'' + bR\"\"\"tf.Session\"\"\"\n"
                "d = 'tf.Session \\\n tf.Session'\n"
                "e = \"\"\"\\\"\"\" tf.Session\"\"\"; tf.Session()\n") == Uses{"10 tf.Session"});
}

TEST_CASE("migration: lines are counted through strings and brackets and continuations") {
  CHECK(uses_of("import tensorflow as tf\r\n"
                "x = (tf.zeros(\r\n"
                "    3), '''\r\n\r\n''',\r\n"
                "  tf.\r\n"
                "  ones)\r"
                "y = 1 + \\\n"
                "    tf.fill\n") == Uses{"2 tf.zeros", "6 tf.ones", "9 tf.fill"});
}

TEST_CASE("migration: imports give names") {
  CHECK(uses_of("import tensorflow.compat.v1 as tf\ntf.Session\n") == Uses{"2 tf.Session"});
  CHECK(uses_of("import tensorflow\ntensorflow.compat.v1.Session\n") == Uses{"2 tf.Session"});
  CHECK(uses_of("from tensorflow.compat import v1 as t\nt.train.Saver()\n") ==
        Uses{"2 tf.train.Saver"});
  CHECK(uses_of("from tensorflow import (layers as l,\n  nn,)\nl.dense(nn.relu)\n") ==
        Uses{"3 tf.layers.dense", "3 tf.nn.relu"});
  CHECK(uses_of("from tensorflow.train import AdamOptimizer as A\nA(1)\nprint(A)\n") ==
        Uses{"2 tf.train.AdamOptimizer", "3 tf.train.AdamOptimizer"});
  CHECK(uses_of("import os, tensorflow as tf, sys\nos.path; tf.abs; sys.argv\n") ==
        Uses{"2 tf.abs"});
  CHECK(
      uses_of("try: import tensorflow.compat.v1 as tf\nexcept ImportError: import tensorflow as tf"
              "\ntf.abs\n") == Uses{"3 tf.abs"});
  // A function may stand before the import that it needs.
  CHECK(uses_of("def f(): return tf.abs\nimport tensorflow as tf\n") == Uses{"1 tf.abs"});
  // An import alone, and a module that is passed on, are no uses.
  CHECK(uses_of("import tensorflow as tf\nfrom tensorflow import nn\nf(tf, nn)\n").empty());
}

TEST_CASE("migration: what is no use of an imported name") {
  CHECK(uses_of("import tensorflow as tf\n"
                "self.tf.abs\n"
                "f(tf=1)\n"
                "def tf(): pass\n"
                "tf = 3\n"
                "x.tf\n")
            .empty());
  // A use in the default of an argument is one.
  CHECK(uses_of("import tensorflow as tf\ndef f(a=tf.abs): pass\n") == Uses{"2 tf.abs"});
}

TEST_CASE("migration: names for modules are followed until they mean something else") {
  CHECK(uses_of("import tensorflow as tf\n"
                "layers = tf.layers\n"
                "layers.dense(1)\n"
                "layers = [1]\n"
                "layers.append(2)\n"
                "kind = tf.float32\n"
                "kind.size\n") == Uses{"3 tf.layers.dense", "6 tf.float32"});
}

TEST_CASE("migration: the adapter's names are the same from each of its modules") {
  for (const std::string import :
       {"from npu_bridge.estimator.npu.npu_config import NPURunConfig",
        "from npu_bridge.npu_init import NPURunConfig", "from npu_bridge.npu_init import *",
        "import npu_bridge.estimator.npu.npu_config as c; NPURunConfig = c.NPURunConfig"}) {
    CAPTURE(import);
    const Uses uses = uses_of(import + "\nNPURunConfig()\n");
    REQUIRE(!uses.empty());
    CHECK(uses.back().ends_with(" npu_bridge.NPURunConfig"));
  }
  CHECK(uses_of("from npu_bridge.npu_init import *\nutil.set_iteration_per_loop(s, t, 10)\n"
                "npu_ops.dropout(x, 0.5)\nother.thing\nplain()\n") ==
        Uses{"2 npu_bridge.set_iteration_per_loop", "3 npu_bridge.dropout"});
}

TEST_CASE("migration: options are found as arguments and keys and members") {
  CHECK(uses_of("from npu_bridge.npu_init import *\n"
                "NPURunConfig(iterations_per_loop=10,\n"
                "             session_config=f(model_dir=1, x={'a': 2}), precision_mode = 'a')\n"
                "g(iterations_per_loop=3)\n"
                "op.parameter_map[\"enable_data_pre_proc\"].b = True\n"
                "op.parameter_map['no_such_option'].i = 1\n"
                "op.parameter_map[name].i = 1\n") ==
        Uses{"2 npu_bridge.NPURunConfig", "2 iterations_per_loop", "3 session_config",
             "3 precision_mode", "5 enable_data_pre_proc", "6 no_such_option"});
  CHECK(uses_of("import npu_device as npu\nnpu.global_options().precision_mode = 'x'\n") ==
        Uses{"2 npu_device.global_options", "2 precision_mode"});
}

TEST_CASE("migration: packages of third parties are named and own and standard modules are not") {
  CHECK(uses_of("from __future__ import print_function\n"
                "import horovod.tensorflow as hvd, numpy as np, json, own.part\n"
                "from . import beside\n"
                "from .models import net\n"
                "hvd.init(np.float32, json.dumps, own.part.f, beside.g, net())\n"
                "from scipy.stats import *\n") ==
        Uses{"5 horovod.tensorflow.init", "5 numpy.float32", "6 scipy.stats.*"});
  const ApiTable table = ApiTable::builtin();
  const Finding finding = table.judge(table.canonical("horovod.tensorflow.init"));
  CHECK(finding.module == "horovod");
  CHECK(finding.level == Level::kUnsupportedNoPlan);
}

TEST_CASE("migration: the nearest row judges a name") {
  ApiTable table;
  table.add(R"({"apis": [
      {"name": "m.a", "level": "deprecated", "advice": "a"},
      {"name": "m.a.b.*", "level": "analysing", "advice": "b"},
      {"name": "m.a.b.c", "level": "compatible class", "advice": "c"}],
      "unknown": {"level": "analysing", "advice": "none"}})",
            "table");
  const auto judge = [&](const char* name) {
    const Finding finding = table.judge({"m", name, true});
    return finding.name + " " + finding.advice;
  };
  CHECK(judge("m.a") == "m.a a");
  CHECK(judge("m.a.x") == "m.a a");  // a member of the class
  CHECK(judge("m.a.b.x") == "m.a.b.x b");
  CHECK(judge("m.a.b") == "m.a a");
  CHECK(judge("m.a.b.c.d") == "m.a.b.c c");
  CHECK(judge("m.b") == "m.b none");
  // Rows of a later table go before.
  table.add(R"json({"apis": [
      {"name": "m.a", "level": "supported (no migration)", "advice": "new"}]})json",
            "user");
  CHECK(judge("m.a") == "m.a new");
}

TEST_CASE("migration: tables that are wrong name the place") {
  const auto refusal = [](const std::string& json) {
    return keel_test::error_of([&] { ApiTable().add(json, "t.json"); });
  };
  const auto row = [](const std::string& name, const std::string& level) {
    return R"({"name": ")" + name + R"(", "level": ")" + level + R"(", "advice": ""})";
  };
  CHECK(refusal("{") != "");
  CHECK(refusal(R"({"api": []})").find("did you mean 'apis'") != std::string::npos);
  CHECK(refusal(R"({"apis": [)" + row("tf.a", "supported") + "]}").find("apis[0].level") !=
        std::string::npos);
  CHECK(refusal(R"({"apis": [)" + row("tf.*.a", "deprecated") + "]}").find("'.*' at its end") !=
        std::string::npos);
  CHECK(refusal(R"({"apis": [)" + row("a", "deprecated") + "," + row("a", "analysing") + "]}")
            .find("apis[1].name") != std::string::npos);
  CHECK(refusal(R"({"apis": [{"name": "a", "level": "deprecated"}]})").find("advice") !=
        std::string::npos);
}

TEST_CASE("migration: text that is no script says where") {
  CHECK(refusal_of("a\nb = 'open\nc\n").find("script.py:2: a string is not closed") !=
        std::string::npos);
  CHECK(refusal_of("a\n\n'''open\n\n").find("script.py:3: a string") != std::string::npos);
  CHECK(refusal_of("'a\\").find("script.py:1: a string") != std::string::npos);
  CHECK(refusal_of("f(\n[\n").find("script.py:2: a bracket is not closed") != std::string::npos);
  CHECK(refusal_of("f(]\n").find("']' closes nothing") != std::string::npos);
  CHECK(refusal_of(")").find("')' closes nothing") != std::string::npos);
  CHECK(refusal_of(std::string("a\nb\0", 4)).find("script.py:2: has a NUL") != std::string::npos);
  CHECK(refusal_of(std::string("# a\0", 4)).find("NUL") != std::string::npos);
  CHECK(refusal_of("a = \\ b\n").find("inside of a line") != std::string::npos);
  std::string stars;
  for (int i = 0; i < 101; ++i) stars += "from a" + std::to_string(i) + " import *\n";
  CHECK(refusal_of(stars).find("script.py:101: more than 100") != std::string::npos);
}

TEST_CASE("migration: scripts that end anywhere are read or refused") {
  const std::string script =
      "import tensorflow as tf, a.b as c\nfrom npu_bridge.npu_init import (NPURunConfig as N, *)\n"
      "x = tf.layers\nN(iterations_per_loop=1).parameter_map['a'].i = "
      "1.5e-3\n@x.dense\nr'''a'''\\\n";
  for (size_t size = 0; size <= script.size(); ++size) refusal_of(script.substr(0, size));
  CHECK(uses_of("\xef\xbb\xbfimport tensorflow as tf\ntf.abs\n") == Uses{"2 tf.abs"});
  CHECK(uses_of("import tensorflow as tf\n\xe9\xff = tf.abs  # \xe9\nimport\nfrom\nfrom x\n") ==
        Uses{"2 tf.abs"});
  CHECK(uses_of("").empty());
}

TEST_CASE("migration: large scripts stay within the budget") {
  const uint64_t before = read_budget();
  set_read_budget(1 << 20);
  const std::string budget = refusal_of(std::string(1 << 18, ';'));
  CHECK(budget.find("1 MiB") != std::string::npos);
  set_read_budget(before);
  const std::string long_line =
      "import tensorflow as tf; x = '" + std::string(10 << 20, 'a') + "'; tf.abs\n";
  CHECK(uses_of(long_line) == Uses{"1 tf.abs"});
}

}  // namespace keel::migration
