/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else: it has the installed snib.h and libsnib and nothing of this tree. */
#include <snib.h>

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    snib *client = NULL;
    snib_lease *lease = NULL;
    snib_error error;

    if (argc != 2 || snib_open(&client, argv[1], &error) < 0 ||
        snib_acquire(&lease, client, "downstream", NULL, &error) < 0) {
        (void)fprintf(stderr, "%s\n", argc == 2 ? error.message : "one URL is needed");
        snib_close(client);
        return 1;
    }
    (void)printf("snib %s, token %" PRIu64 "\n", snib_version(), snib_token(lease));
    int answer = snib_release(&lease, NULL);
    snib_close(client);
    return answer == SNIB_OK ? 0 : 1;
}
