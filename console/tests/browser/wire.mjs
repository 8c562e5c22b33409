// A connection to the control plane that tests can interrupt.

import net from "node:net";

export async function openWire(port) {
  const sockets = new Set();
  let broken = false;
  const server = net.createServer((client) => {
    if (broken) return client.destroy();
    const upstream = net.connect(port, "127.0.0.1");
    for (const [socket, other] of [[client, upstream], [upstream, client]]) {
      sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    port: server.address().port,
    /** Ends all connections and accepts no more. */
    interrupt() {
      broken = true;
      for (const socket of sockets) socket.destroy();
    },
    restore() {
      broken = false;
    },
    close: () => server.close(),
  };
}
