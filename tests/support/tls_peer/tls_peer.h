/* The parts of the program tls_peer: see main.c. */
#ifndef SNIB_TESTS_TLS_PEER_H
#define SNIB_TESTS_TLS_PEER_H

/* Both end the program with a message when something goes wrong. */
void make_certificates(const char *folder);
int serve(int argc, char **argv);

_Noreturn void give_up(const char *what);

#endif
