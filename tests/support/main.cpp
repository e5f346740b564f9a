#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>
#include <string_view>

#include <doctest/doctest.h>

namespace {

// What CTest takes for a test that was skipped (discover_cases.cmake).
constexpr int kSkipped = 77;

unsigned cases_run = 0;
unsigned cases_skipped = 0;

// A case that says that it is skipped is so where it has not failed as well.
struct CaseCounter : doctest::IReporter {
  explicit CaseCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override { says_skipped_ = false; }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (says_skipped_ && stats.failure_flags == 0) ++cases_skipped;
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData& message) override {
    const std::string_view text = message.m_string.c_str();
    says_skipped_ = says_skipped_ || text.starts_with("keel test skipped:");
  }
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  bool says_skipped_ = false;
};

REGISTER_LISTENER("case counter", 1, CaseCounter);

}  // namespace

// A filter that matches nothing would pass silently; here it is a failure. Where all that ran was
// skipped, the exit code says so.
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) return result;  // a query, such as --list-test-cases
  if (cases_run == 0) {
    std::fputs("no test case matches the filter\n", stderr);
    return 1;
  }
  return result == 0 && cases_skipped == cases_run ? kSkipped : result;
}
