import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A broker that is its own controller: Server PROPERTIES [OPTION...]. If the directory data beside the file
 * PROPERTIES is new, it is formatted first, with the options of kafka-storage.sh format.
 */
public final class Server {
    public static void main(String[] args) throws Exception {
        Lifeline.hold();
        if (!Files.exists(Path.of(args[0]).resolveSibling("data").resolve("meta.properties"))) {
            List<String> format = new ArrayList<>(List.of(
                "format", "--config", args[0], "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA", "--standalone"));
            format.addAll(List.of(args).subList(1, args.length));
            int status = kafka.tools.StorageTool.execute(format.toArray(String[]::new), System.out);
            if (status != 0) {
                System.exit(status);
            }
        }
        kafka.Kafka.main(new String[] {args[0]});
    }
}
