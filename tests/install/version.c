/* The smallest program over the installed package. */
#include <stdio.h>
#include <xc/xc.h>

int main(void) {
  printf("xc %s\n", xc_runtime_version());
  return 0;
}
