/* Free TCP ports on 127.0.0.1 that stay ours while the server behind them is down. */
#ifndef SNIB_TESTS_PORT_H
#define SNIB_TESTS_PORT_H

/* A port that nobody listens on, that no other test process claims and that the kernel does not
 * give to outgoing connections. The claim ends with this process. */
int port_claim(void);

/* A blocking connection to 127.0.0.1:port, or -1 and errno. */
int port_connect(int port);

#endif
