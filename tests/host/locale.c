/* A host whose numbers have a decimal comma, as GUI toolkits set it from the user's environment:
 * text of models, rules, code and settings reads as ever. */
#define _GNU_SOURCE
#include <locale.h>
#include <unistd.h>

#include "network.h"

/* A locale of our own, for a system may have none but C. */
static const char kDefinition[] =
    "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";

static int make_locale(const char* folder) {
  char command[512], path[256];
  FILE* file;
  snprintf(path, sizeof path, "%s/comma.src", folder);
  if (!(file = fopen(path, "w"))) return 0;
  fputs(kDefinition, file);
  fclose(file);
  snprintf(command, sizeof command, "localedef -c -i %s %s/comma >%s/log 2>&1", path, folder,
           folder);
  if (system(command) == -1) return 0;
  setenv("LOCPATH", folder, 1);
  return setlocale(LC_ALL, "comma") != NULL;
}

static void run(const char* mode, xc_tensor** out) {
  static float x[kMostRows * kColumns];
  xc_error* error = NULL;
  network n;
  fill_input(x, 9);
  CHECK_OK(network_open(&n, mode, 1, NULL, &error));
  CHECK_OK(network_run(&n, x, 9, out, &error));
  network_close(&n);
}

int main(void) {
  char folder[] = "/tmp/xc_locale_XXXXXX";
  const char* const modes[] = {"off", "sync"};
  xc_tensor *before[2][kOutputs] = {{NULL}}, *behind[2][kOutputs] = {{NULL}};
  xc_error* error = NULL;
  xc_blob* text = NULL;
  xc_graph* graph = NULL;
  network n;
  int mode;
  for (mode = 0; mode < 2; ++mode) run(modes[mode], before[mode]);
  if (!mkdtemp(folder) || !make_locale(folder)) {
    printf("skipped: no localedef to make a locale with\n");
  } else {
    CHECK(strtod("0.5", NULL) == 0); /* the host reads numbers in another way now */
    for (mode = 0; mode < 2; ++mode) {
      run(modes[mode], behind[mode]);
      CHECK(differing(before[mode], behind[mode]) == 0);
      drop_outputs(behind[mode]);
    }
    /* Cast of text. */
    CHECK(((const float*)xc_tensor_data(before[0][3]))[0] == 0.75f);
    /* Printed numbers have a point. */
    CHECK_OK(network_open(&n, "off", 1, NULL, &error));
    CHECK_OK(xc_model_graph(n.model, &graph, &error));
    CHECK_OK(xc_graph_text(graph, 0, &text, &error));
    CHECK_CONTAINS(xc_blob_data(text), "0.03125");
    xc_blob_destroy(text);
    xc_graph_destroy(graph);
    network_close(&n);
  }
  for (mode = 0; mode < 2; ++mode) drop_outputs(before[mode]);
  CHECK(remove_folder(folder));
  return check_result();
}
