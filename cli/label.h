/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNIB_CLI_LABEL_H
#define SNIB_CLI_LABEL_H

#define LABEL_SIZE 61 /* as the library has it: 60 bytes */

/* What others see if --label was not given: "rsync (alice)". `program` is a name or a path. Answers
 * `out`. */
const char *label_make(char out[LABEL_SIZE], const char *program);

/* The same for the process that has started us. */
const char *label_make_of_parent(char out[LABEL_SIZE]);

#endif
