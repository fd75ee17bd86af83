#include "text/jinja/work_limit.h"

#include "text/jinja/value.h"

namespace fm::jinja {

void refuse_work() {
  fail("a template must end after ", kMostSteps, " steps, of which each ", kStepBytes,
       " bytes that it reads or writes are one; write it shorter");
}

}  // namespace fm::jinja
