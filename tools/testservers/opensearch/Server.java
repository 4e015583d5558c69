import java.util.List;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.env.Environment;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.transport.Netty4Plugin;

/** A node of OpenSearch 2 on the loopback address: Server DIRECTORY PORT [SETTING=VALUE...]. */
public final class Server extends Node {
    private Server(Environment environment) {
        super(environment, List.of(Netty4Plugin.class, CommonAnalysisPlugin.class, PainlessPlugin.class), true);
    }

    public static void main(String[] args) throws Exception {
        Lifeline.hold();
        new Server(Configuration.of(args)).start();
        Thread.currentThread().join();
    }
}
