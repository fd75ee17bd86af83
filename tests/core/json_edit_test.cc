#include "core/json_edit.h"

#include <gtest/gtest.h>

namespace fm::core {
namespace {

constexpr const char* kText = R"({
  "a": {"b": [1, "}\"]"], "n": 1e30},
  "b": "x, \"y\"",
  "c": 12
}
)";

TEST(JsonEdit, ChangesOneMemberAndLeavesTheRestAsItIs) {
  EXPECT_EQ(with_member(kText, "b", "[2]"),
            "{\n  \"a\": {\"b\": [1, \"}\\\"]\"], \"n\": 1e30},\n  \"b\": [2],\n  \"c\": 12\n}\n");
  EXPECT_EQ(with_member(R"({"a":{"b":1},"b":2})", "b", "null"), R"({"a":{"b":1},"b":null})");
  EXPECT_EQ(with_member(R"({"b": 1, "b": 2})", "b", "3"),
            R"({"b": 1, "b": 3})");  // the last counts
}

TEST(JsonEdit, PutsANewMemberBehindTheLastOne) {
  EXPECT_EQ(with_member(kText, "d", "true"),
            "{\n  \"a\": {\"b\": [1, \"}\\\"]\"], \"n\": 1e30},\n  \"b\": \"x, \\\"y\\\"\",\n"
            "  \"c\": 12,\n  \"d\": true\n}\n");
  EXPECT_EQ(with_member(R"({"a": 1})", "b", "2"), R"({"a": 1, "b": 2})");
  EXPECT_EQ(with_member("{ }\n", "a\"b", "1"), "{\"a\\\"b\": 1}\n");
  EXPECT_EQ(with_member(R"({"a\"b": 1})", "a\"b", "2"), R"({"a\"b": 2})");
}

TEST(JsonEdit, TakesAMemberAwayWithItsComma) {
  EXPECT_EQ(without_member(R"({"a": 1, "b": [2, 3], "c": 4})", "b"), R"({"a": 1, "c": 4})");
  EXPECT_EQ(without_member(R"({"a": 1, "b": 2})", "b"), R"({"a": 1})");
  EXPECT_EQ(without_member(R"({"a": 1})", "a"), "{}");
  EXPECT_EQ(without_member(R"({"a": 1})", "b"), R"({"a": 1})");
}

}  // namespace
}  // namespace fm::core
