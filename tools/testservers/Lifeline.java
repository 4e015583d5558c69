import java.io.IOException;

/** Ends the process when its standard input ends: that happens whenever the test that started it ends. */
final class Lifeline {
    private Lifeline() {
    }

    static void hold() {
        Thread thread = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Ignore bytes: only the end of the input matters.
                }
            } catch (IOException e) {
                // An input that cannot be read counts as ended.
            }
            Runtime.getRuntime().halt(0);
        });
        thread.setDaemon(true);
        thread.start();
    }
}
